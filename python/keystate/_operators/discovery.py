"""Finds out which states a function has, before the query starts.

The JVM has to know them to plan: what to send ahead, what to check against the checkpoint. So a
copy of the function is opened on the driver with a context that only takes notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keystate._spec.specs import StateSpec, resolve_lasting_state, resolve_state
from keystate._worker.calls.event_loop import EventLoop
from keystate._worker.calls.function_spec import Style
from keystate._worker.calls.sent import SentFunction
from keystate._worker.operator_state.operator_states import OperatorListState, OperatorStates
from keystate._worker.operator_state.raw_state import RawKeyedInput
from keystate._worker.operator_state.shared_map import SharedMapState, entries_spec
from keystate.errors import DeclarationError, StateAccessError
from keystate.functions import CheckpointedFunction, KeyedStateStore, MetricGroup, RuntimeContext
from keystate.functions.subtask import Subtask
from keystate.state import (
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
)

DeclaredStates = tuple[tuple[StateSpec, bool], ...]


def discover_states(function: SentFunction) -> tuple[tuple[StateSpec, ...], DeclaredStates, bool]:
    """The states that a pickled function gets, in that order.

    Returns:
        The keyed states, the operator states, of which some are union states, and whether the
        function has metrics.

    Raises:
        DeclarationError: ``initialize_state``, ``open`` or ``close`` failed, or a state is not well
            declared.
    """
    context = _DiscoveryContext()
    function_spec = function.load()
    operator_states = _discover_operator_states(function_spec.function, context)
    loop = EventLoop() if function_spec.style is Style.ASYNC else None
    finish: Callable[[Any], None] = (lambda _: None) if loop is None else loop.finish
    try:
        with _called_once("open", "to learn its states"):
            context.method = "open"
            finish(function_spec.open(context))
        with _called_once("close", "after open() told its states", as_it_is=()):
            context.method = "close"
            finish(function_spec.close())
    finally:
        if loop is not None:
            loop.close()
    return tuple(context.states.values()), operator_states, context.has_metrics


@contextmanager
def _called_once(
    method: str, why: str, as_it_is: tuple[type[Exception], ...] = (DeclarationError,)
) -> Iterator[None]:
    try:
        yield
    except as_it_is:
        raise
    except Exception as e:
        raise DeclarationError(
            f"{method}() failed on the driver, where it is called once on a copy of the function "
            f"{why}: {type(e).__name__}: {e}"
        ) from e


def discover_operator_states(function: SentFunction) -> DeclaredStates:
    """The operator states that a pickled source gets, and which of them are union states.

    Raises:
        DeclarationError: ``initialize_state`` failed, or a state is not well declared.
    """
    return _discover_operator_states(function.load(), None)


def _discover_operator_states(copy: Any, keyed: KeyedStateStore | None) -> DeclaredStates:
    if not isinstance(copy, CheckpointedFunction):
        return ()
    context = _OperatorStateDiscovery(keyed)
    with _called_once("initialize_state", "to learn its states"):
        copy.initialize_state(context)
    return tuple(context.states.values())


class _OperatorStateDiscovery(OperatorStates):
    """Takes notes of operator states; there is nothing to restore, and they are empty."""

    def __init__(self, keyed: KeyedStateStore | None) -> None:
        super().__init__({}, None, {}, {}, keyed)
        self.states: dict[str, tuple[StateSpec, bool]] = {}

    def get_raw_keyed_state_inputs(self) -> Iterator[RawKeyedInput]:
        return iter(())

    def get_list_state(self, state_descriptor: ListStateDescriptor[Any]) -> ListState[Any]:
        return self._note(state_descriptor, False)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor[Any]) -> ListState[Any]:
        return self._note(state_descriptor, True)

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[Any, Any]
    ) -> BroadcastState[Any, Any]:
        # One instance's copy is stored, and given to all.
        spec = entries_spec(self._resolve(state_descriptor, MapStateDescriptor))
        self.states[spec.name] = (spec, True)
        return SharedMapState(spec, is_stored=False)

    def _note(self, descriptor: ListStateDescriptor[Any], union: bool) -> ListState[Any]:
        spec = self._resolve(descriptor, ListStateDescriptor)
        self.states[spec.name] = (spec, union)
        return OperatorListState(spec)

    def _resolve(self, descriptor: Any, expected: type[StateDescriptor]) -> StateSpec:
        if not isinstance(descriptor, expected):
            raise DeclarationError(f"expected a {expected.__name__}, got {descriptor!r}")
        if descriptor.name in self.states:
            raise DeclarationError(f"two states are named '{descriptor.name}'")
        return resolve_lasting_state(descriptor, "operator")


class _DiscoveryContext(RuntimeContext):
    _subtask = Subtask("declaration")

    def __init__(self) -> None:
        self.has_metrics = False
        self.states: dict[str, StateSpec] = {}
        self.method = "initialize_state"  # which is called

    def _provide(self, descriptor: StateDescriptor) -> Any:
        if descriptor.name in self.states:
            raise DeclarationError(
                f"two states are named '{descriptor.name}': every state of a function needs a name "
                "of its own"
            )
        self.states[descriptor.name] = resolve_state(descriptor)
        return _DeclaredState(descriptor.name, self)

    def get_key_group(self, key: Any) -> int:
        return 0

    def get_metrics_group(self) -> MetricGroup:
        self.has_metrics = True
        return MetricGroup()


class _DeclaredState:
    """A state that has no key yet, and so can't be used."""

    def __init__(self, name: str, context: _DiscoveryContext) -> None:
        self._name = name
        self._context = context

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):
            raise AttributeError(method)
        raise StateAccessError(
            f"state '{self._name}' was used in {self._context.method}(), where no key is being "
            "processed"
        )
