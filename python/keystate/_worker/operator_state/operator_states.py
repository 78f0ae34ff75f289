"""Operator state: lists in the memory of each instance, whole in every snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from keystate._spec.specs import StateSpec
from keystate._types.codec import Misfit
from keystate._types.codec.evolution import to_text
from keystate._worker.operator_state.raw_state import (
    RAW,
    RawInput,
    RawKeyedInput,
    RawKeyedOutput,
    RawKeyedState,
    RawOutput,
    decode_raw,
    no_keys,
)
from keystate._worker.operator_state.shared_map import SharedMapSpec, SharedMapState
from keystate._worker.operator_state.stored_elements import element_as_declared
from keystate._worker.pickles.pickled import Pickles
from keystate._worker.state.journal import Journal
from keystate.errors import DeclarationError, StateAccessError, StateTypeError
from keystate.functions import CheckpointedFunction, KeyedStateStore, ListCheckpointed
from keystate.state import (
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

#: What an instance's states hold: encoded elements by the state's name.
Snapshot = dict[str, list[str]]

#: The state of a ListCheckpointed function, which has no name and no declared type.
LIST = "$list"


class OperatorStates:
    """The operator states of one instance; the store and the context that a function is given.

    Args:
        specs: the states by their names.
        batch: the micro-batch that `restored` is of; ``None`` if there is none.
        restored: what the instance had itself. States that it does not ask for stay so.
        unions: of each of its union states, what all instances had.
        keyed: its keyed states.
        raw_keyed: its raw keyed state.
        index: which of the instances it is.
        pickles: the classes that may be unpickled.
        journal: gives the journal of the current row, if its changes may have to be undone.
    """

    def __init__(
        self,
        specs: dict[str, StateSpec],
        batch: int | None,
        restored: Snapshot,
        unions: Snapshot,
        keyed: KeyedStateStore | None = None,
        raw_keyed: RawKeyedState | None = None,
        index: int = 0,
        pickles: Iterable[str] = (),
        journal: Callable[[], Journal] | None = None,
    ) -> None:
        self._index = index
        self._journal = journal
        self._pickles = Pickles(pickles)
        self._raw_keyed = raw_keyed
        self._keyed = keyed
        self._specs = specs
        self._batch = batch
        self._restored = restored
        self._unions = unions
        self._states: dict[str, OperatorListState | SharedMapState] = {}

    def initialize(self, function: Any) -> None:
        """Gives the function what it had."""
        if isinstance(function, CheckpointedFunction):
            function.initialize_state(self)
        elif isinstance(function, ListCheckpointed) and self.is_restored():
            elements = self._restored.get(LIST, [])
            function.restore_state(self._pickles.decode(elements))

    def snapshot(self, function: Any, batch: int, time: int) -> Snapshot:
        """What the function would have after a restart; other states stay as they were."""
        written: Snapshot = {}
        if isinstance(function, ListCheckpointed):
            elements = function.snapshot_state(batch, time)
            if not isinstance(elements, list):
                raise StateTypeError(f"snapshot_state() must return a list, got {elements!r}")
            written[LIST] = self._pickles.encode(elements)
        elif isinstance(function, CheckpointedFunction):
            context = SnapshotContext(batch, time, self._raw_keyed)
            function.snapshot_state(context)
            written[RAW] = context.raw.encode()
        written.update((name, state.encode()) for name, state in self._states.items())
        return {**self._restored, **written}

    def is_restored(self) -> bool:
        """Whether there is state of an earlier run."""
        return self._batch is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """The batch that the state is from; ``None`` when there is none."""
        return self._batch

    def get_operator_state_store(self) -> OperatorStates:
        """The operator states."""
        return self

    def get_keyed_state_store(self) -> KeyedStateStore:
        """The keyed states; a source has none."""
        if self._keyed is None:
            raise DeclarationError("a source has no keyed state")
        return self._keyed

    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A list that is spread evenly when the parallelism changes."""
        return self._list(state_descriptor)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A list of which every instance gets all elements when it is restored."""
        return self._list(state_descriptor)

    def get_raw_operator_state_inputs(self) -> list[RawInput]:
        """The raw streams that this instance is restored with."""
        return decode_raw(self._restored.get(RAW, []))

    def get_raw_keyed_state_inputs(self) -> Iterator[RawKeyedInput]:
        """The raw streams of this subtask's key groups."""
        if self._raw_keyed is None:
            raise no_keys()
        return self._raw_keyed.inputs()

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> BroadcastState[K, V]:
        """A map that is the same on every instance, and of which each is restored with a copy."""
        state = self._state(state_descriptor)
        assert isinstance(state, SharedMapState)
        return state

    def _list(self, descriptor: ListStateDescriptor[Any]) -> ListState[Any]:
        state = self._state(descriptor)
        assert isinstance(state, OperatorListState)
        return state

    def _state(self, descriptor: StateDescriptor) -> OperatorListState | SharedMapState:
        name = descriptor.name
        if name not in self._specs:
            raise StateAccessError(
                f"state '{name}' was not asked for when the query was planned: get every state in "
                "initialize_state(), unconditionally",
                code="KEYSTATE_DECLARATION",
            )
        if name not in self._states:
            spec = self._specs[name]
            state = (
                SharedMapState(spec, self._index == 0, self._journal)
                if isinstance(spec, SharedMapSpec)
                else OperatorListState(spec, self._journal)
            )
            state.decode(self._unions.get(name, self._restored.get(name, [])))
            self._states[name] = state
        return self._states[name]


class SnapshotContext:
    """The context of ``snapshot_state``."""

    def __init__(self, batch: int, time: int, raw_keyed: RawKeyedState | None) -> None:
        self._batch = batch
        self._time = time
        self._raw_keyed = raw_keyed
        self.raw = RawOutput()

    def get_checkpoint_id(self) -> int:
        """The batch that the snapshot ends."""
        return self._batch

    def get_checkpoint_timestamp(self) -> int:
        """Its time in ms since the epoch."""
        return self._time

    def get_raw_operator_state_output(self) -> RawOutput:
        """Takes this subtask's raw streams."""
        return self.raw

    def get_raw_keyed_operator_state_output(self) -> RawKeyedOutput:
        """Takes the raw streams of this subtask's key groups."""
        if self._raw_keyed is None:
            raise no_keys()
        return self._raw_keyed.output()


class OperatorListState(ListState[Any]):
    """Elements as they are read; encoded for a snapshot.

    They are its own: what is added is copied, and so is what is read. Else a change in place would
    be stored without an update.
    """

    def __init__(self, spec: StateSpec, journal: Callable[[], Journal] | None = None) -> None:
        self._spec = spec
        self._journal = journal
        self._codec = spec.value_codec()
        self._elements: list[Any] = []

    def get(self) -> Iterable[Any]:
        return self._codec.all_copied(self._elements)

    def add(self, value: Any) -> None:
        added = self._as_read([value])
        self._note()
        self._elements += added

    def add_all(self, values: Iterable[Any]) -> None:
        # Before the list is looked at: a generator may read and change it.
        added = self._as_read(values)
        self._note()
        self._elements += added

    def update(self, values: Iterable[Any]) -> None:
        elements = self._as_read(values)
        self._note()
        self._elements = elements

    def clear(self) -> None:
        self._note()
        self._elements = []

    def _note(self) -> None:
        """Notes how it is before a change. Elements are only added to a list."""
        if self._journal is not None:
            self._journal().append((self._undo, self._elements, len(self._elements)))

    def _undo(self, elements: list[Any], size: int) -> None:
        self._elements = elements
        del elements[size:]

    def encode(self) -> list[str]:
        """Each element as an Arrow stream of its own, so that elements can be dealt out."""
        return [self._encode(element) for element in self._elements]

    def _as_read(self, values: Iterable[Any]) -> list[Any]:
        try:
            if isinstance(values, (list, tuple)):
                return self._codec.all_as_read(values)
            # One by one: a generator may yield the same object again with another content.
            return list(map(self._codec.as_read, values))
        except Misfit as e:
            raise self._misfit(e) from None

    def _encode(self, element: Any) -> str:
        try:
            column = self._codec.encode([element])
        except Misfit as e:
            raise self._misfit(e) from None
        return to_text(column)

    def _misfit(self, error: Misfit) -> StateTypeError:
        return StateTypeError(f"state '{self._spec.name}': {error}")

    def decode(self, encoded: Iterable[str]) -> None:
        """Takes over the elements of a snapshot."""
        self._elements = []
        for element in encoded:
            column = element_as_declared(element, self._spec, self._codec)
            self._elements += self._codec.decode(column)


def redistribute(old: Sequence[Snapshot], unions: set[str], parallelism: int) -> list[Snapshot]:
    """Each instance's part of the states when their number may have changed, as in Flink.

    With the same number every instance keeps its own. Else the elements of a state are dealt out in
    their order, as evenly as possible; where one state's remainder ended, the next one's begins.
    Every instance gets all elements of a union state, always.
    """
    names = list(dict.fromkeys(name for snapshot in old for name in snapshot))
    parts: list[Snapshot] = [{} for _ in range(parallelism)]
    first = 0
    for name in names:
        elements = [element for snapshot in old for element in snapshot.get(name, [])]
        if name in unions:
            for part in parts:
                part[name] = elements
        elif len(old) == parallelism:
            for part, snapshot in zip(parts, old):
                part[name] = snapshot.get(name, [])
        else:
            share, remainder = divmod(len(elements), parallelism)
            at = 0
            for i in range(parallelism):
                size = share + (i < remainder)
                parts[(first + i) % parallelism][name] = elements[at : at + size]
                at += size
            first = (first + remainder) % parallelism
    return parts
