"""An operator of a checkpoint before it is written: its states and their changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from keystate._jvm.written import WrittenOperator
from keystate._spec.specs import (
    OperatorSpec,
    StateSpec,
    Takes,
    check_name,
    check_names,
    resolve_state,
)
from keystate._spec.time_mode import STORED, TimeMode, time_mode_of
from keystate.checkpoints.new_state import (
    empty_stream,
    key_type_of,
    rekeyed_rows,
    spec_of,
    state_rows,
)
from keystate.checkpoints.operator_lists import OPERATOR_STATE, OperatorLists
from keystate.checkpoints.state_reader import StateReader
from keystate.checkpoints.stored_types import stored_type
from keystate.errors import CheckpointError, DeclarationError
from keystate.state import KeyOrder, StateDescriptor, TypeLike
from keystate.state.kinds import KEYED, TIMERS, WINDOW_TIMERS, StateKind

_RAW_KEYED = "$raw_keyed"
_TIMERS = frozenset({TIMERS, WINDOW_TIMERS})


@dataclass
class OperatorDraft:
    """An operator.

    Attributes:
        number: its number while it is edited.
        reader: reads its state from the edited checkpoint; ``None`` for a new operator.
        max_parallelism: the number of key groups; ``None`` for the number of a new query.
        time_mode: the time mode, which says the clock of its timers.
        specs: its states by their current names; ``None`` for timers.
        stored: for each kept state, its name in the checkpoint.
        rows: for each written state, its rows.
        lists: its operator state, if there is any.
        key: the key columns, if they are known.
        edited: whether it has changed.
        regrouped: whether its keys may go to other key groups.
        rekeyed: whether it has other key columns.
        has_run: whether it is new, and replaces an operator of the query.
    """

    number: int
    reader: StateReader | None
    max_parallelism: int | None
    time_mode: TimeMode
    specs: dict[str, StateSpec | None]
    stored: dict[str, str] = field(default_factory=dict)
    rows: dict[str, DataFrame] = field(default_factory=dict)
    lists: OperatorLists | None = None
    key: T.StructType | None = None
    edited: bool = False
    regrouped: bool = False
    rekeyed: bool = False
    has_run: bool = field(default=False, init=False)

    # -- what the methods of the editor do -------------------------------------------------------

    def read(self, session: SparkSession, state: str) -> DataFrame:
        """The state's rows as they will be written."""
        spec = self._spec(state)
        if state in self.rows:
            return self.rows[state]
        if spec is not None and spec.kind == StateKind.OPERATOR_LIST:
            assert self.lists is not None
            return self.lists.read(session, state)
        if state not in self.stored:
            raise CheckpointError(
                f"state '{state}' of operator {self.number} has no rows yet: give it some by "
                "replace",
                code="KEYSTATE_NO_SUCH_STATE",
            )
        df = self._reader().read(self.stored[state], self.number)
        if spec is not None and spec.kind == StateKind.BROADCAST:
            return df
        key = df.schema["key"].dataType
        assert isinstance(key, T.StructType)
        return state_rows(df, state, spec, key)

    def replace(self, state: str, df: DataFrame) -> None:
        """Writes these rows in place of the state's."""
        spec = self._spec(state)
        if spec is not None and spec.kind == StateKind.RAW_KEYED:
            raise DeclarationError("raw keyed state can only be dropped")
        if spec is not None and spec.kind == StateKind.OPERATOR_LIST:
            assert self.lists is not None
            self.lists.replace(state, df)
        else:
            keyed = spec is None or spec.kind != StateKind.BROADCAST
            key = self.key_type() if keyed else T.StructType()
            self.rows[state] = state_rows(df, state, spec, key)
        self._changed(state)

    def add(self, descriptor: StateDescriptor, df: DataFrame) -> None:
        """Adds a state with these rows."""
        spec = resolve_state(descriptor)
        self._check_free(spec.name)
        self.rows[spec.name] = state_rows(df, spec.name, spec, self.key_type())
        self.specs[spec.name] = spec
        self.edited = True

    def drop(self, state: str) -> None:
        """Drops a state."""
        spec = self._spec(state)
        if spec is not None and spec.kind == StateKind.OPERATOR_LIST:
            assert self.lists is not None
            self.lists.drop(state)
        self.specs.pop(state)
        self.rows.pop(state, None)
        self._changed(state)

    def rename(self, state: str, name: str) -> None:
        """Gives a state another name."""
        spec = self._spec(state)
        if spec is None or spec.kind == StateKind.RAW_KEYED:
            raise DeclarationError(f"'{state}' has no other name")
        check_name(name)
        self._check_free(name)
        if spec.kind == StateKind.OPERATOR_LIST:
            assert self.lists is not None
            self.lists.rename(state, name)
        self.specs[name] = dataclasses.replace(spec, name=name)
        del self.specs[state]
        if state in self.stored:
            self.stored[name] = self.stored.pop(state)
        if state in self.rows:
            self.rows[name] = self.rows.pop(state)
        self.edited = True

    def set_max_parallelism(self, groups: int) -> None:
        """Sets the number of key groups."""
        if not 1 <= groups <= 32768:
            raise DeclarationError(f"max_parallelism must be 1 to 32768, got {groups}")
        self.max_parallelism = groups
        self.edited = self.regrouped = True

    def set_time_mode(self, time_mode: str) -> None:
        """Sets the clock of the operator's timers."""
        self.time_mode = time_mode_of(time_mode, STORED)
        self.edited = True

    def rekey(
        self, session: SparkSession, key: TypeLike, change: Callable[[DataFrame], DataFrame]
    ) -> None:
        """Gives all keyed states another key."""
        key_type = key_type_of(key)
        keyed = {
            name: spec for name, spec in self.specs.items() if spec is None or spec.kind in KEYED
        }
        rows = {
            name: rekeyed_rows(change(self.read(session, name)), name, spec, key_type)
            for name, spec in keyed.items()
        }
        self.rows.update(rows)
        for name in keyed:
            self.stored.pop(name, None)
        self.key = key_type
        self.edited = self.regrouped = self.rekeyed = True

    # -- for the jar -----------------------------------------------------------------------------

    def written(self, session: SparkSession, number: int) -> WrittenOperator:
        """The operator in the form that the jar writes.

        Args:
            session: the session.
            number: the operator's number in the new checkpoint.
        """
        if self.regrouped and _RAW_KEYED in self.stored and self._has_raw_keyed():
            raise CheckpointError(
                f"operator {self.number} has raw keyed state, which belongs to its key groups: "
                f"drop('{_RAW_KEYED}') first",
                code="KEYSTATE_CANNOT_EDIT",
            )
        key = self.key_type() if self._is_keyed() else T.StructType()
        new = [
            spec
            for name, spec in self.specs.items()
            if spec is not None and name not in self.stored and spec.kind != StateKind.OPERATOR_LIST
        ]
        spec = OperatorSpec(
            None,
            self.max_parallelism,
            self.time_mode,
            not _TIMERS.isdisjoint(self.specs),
            tuple(one for one in new if one.kind != StateKind.BROADCAST),
            broadcast=tuple(one for one in new if one.kind == StateKind.BROADCAST),
            takes=Takes(windows=self._windows() if WINDOW_TIMERS in self.specs else None),
        )
        check_names(spec)
        return WrittenOperator(
            number,
            None if self.reader is None else self.number,
            empty_stream(session, key),
            key.names,
            [column.name for column in key if not column.nullable],
            spec.to_json(),
            {stored: name for name, stored in self.stored.items()},
            self.rows,
            None if self.lists is None else self.lists.to_json(),
            self.has_run,
        )

    def key_type(self) -> T.StructType:
        """The key columns, as the checkpoint records them."""
        key = self._known_key()
        if key is None:
            raise CheckpointError(
                f"operator {self.number} has no key", code="KEYSTATE_NO_SUCH_STATE"
            )
        return key

    def _known_key(self) -> T.StructType | None:
        if self.key is None and self.reader is not None:
            self.key = self.reader.key_type(self.number)
        return self.key

    def _is_keyed(self) -> bool:
        """Whether a key is known or needed; an operator without keyed state records no key."""
        return self._known_key() is not None or any(
            spec is None or spec.kind in KEYED for spec in self.specs.values()
        )

    def _has_raw_keyed(self) -> bool:
        return any(one["entries"] != 0 for one in self._found(_RAW_KEYED))

    def _windows(self) -> str:
        """What the checkpoint records of the operator's windows."""
        recorded: str = self._found(WINDOW_TIMERS)[0]["properties"]["windows"]
        return recorded

    def _found(self, state: str) -> list[dict[str, Any]]:
        found = self._reader().found["operators"]
        (states,) = (one["states"] for one in found if one["id"] == self.number)
        return [one for one in states if one["name"] == state]

    def _reader(self) -> StateReader:
        assert self.reader is not None
        return self.reader

    def _changed(self, state: str) -> None:
        self.stored.pop(state, None)
        self.edited = True

    def _spec(self, state: str) -> StateSpec | None:
        if state not in self.specs:
            raise CheckpointError(
                f"there is no state '{state}' of operator {self.number}, there are "
                f"{', '.join(self.specs) or 'none'}",
                code="KEYSTATE_NO_SUCH_STATE",
            )
        return self.specs[state]

    def _check_free(self, name: str) -> None:
        if name in self.specs:
            raise DeclarationError(f"operator {self.number} has a state '{name}' already")


def stored_operator(reader: StateReader, operator: dict[str, Any]) -> OperatorDraft:
    """An operator of the edited checkpoint.

    Args:
        reader: reads the checkpoint.
        operator: as ``inspect`` describes it.
    """
    specs: dict[str, StateSpec | None] = {}
    lists = None
    for state in operator["states"]:
        name, known = state["name"], state["properties"]
        if name == OPERATOR_STATE:
            lists = reader.lists(operator["id"])
            specs.update((one, _unkeyed(one, StateKind.OPERATOR_LIST)) for one in lists.names)
        elif name == _RAW_KEYED:
            specs[name] = _unkeyed(name, StateKind.RAW_KEYED)
        elif name in _TIMERS:
            specs[name] = None
        elif "valueType" in known:
            key = known.get("keyType")
            specs[name] = StateSpec(
                name,
                StateKind(state["kind"]),
                state["kind"],
                stored_type(known["valueType"], name),
                None if key is None else stored_type(key, name),
                order=KeyOrder(known.get("order", "natural")),
            )
    return OperatorDraft(
        operator["id"],
        reader,
        operator["max_parallelism"],
        TimeMode.AS_BEFORE,
        specs,
        {
            name: name
            for name, spec in specs.items()
            if spec is None or spec.kind != StateKind.OPERATOR_LIST
        },
        lists=lists,
    )


def new_operator(
    number: int,
    fn: Any,
    key: TypeLike,
    states: Mapping[str, DataFrame] | None,
    timers: DataFrame | None,
    time_mode: str,
    max_parallelism: int | None,
) -> OperatorDraft:
    """An operator that a function declares, from the arguments of :func:`keystate.admin.create`."""
    key_type = key_type_of(key)
    spec = spec_of(fn, key_type, time_mode, max_parallelism)
    known: dict[str, StateSpec | None] = {state.name: state for state in spec.states}
    if spec.timers:
        known[TIMERS] = None
    given = dict(states or {})
    if timers is not None:
        given[TIMERS] = timers
    for name in given:
        if name not in known:
            raise DeclarationError(
                f"the function has no {'timers' if name == TIMERS else f'state {name!r}'}, it has "
                f"{', '.join(known) or 'none'}"
            )
    rows = {name: state_rows(df, name, known[name], key_type) for name, df in given.items()}
    return OperatorDraft(
        number, None, max_parallelism, spec.time_mode, known, {}, rows, key=key_type, edited=True
    )


def _unkeyed(name: str, kind: StateKind) -> StateSpec:
    return StateSpec(name, kind, kind.value, T.BinaryType(), None)
