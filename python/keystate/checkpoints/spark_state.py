"""Functions that take over the state of Spark's own operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate._spec.time_mode import TimeMode
from keystate.checkpoints.editor import CheckpointEditor
from keystate.checkpoints.new_state import key_type_of
from keystate.errors import CheckpointError, DeclarationError
from keystate.functions import TimeDomain
from keystate.state import TypeLike

_TIMEOUT = "timeoutTimestamp"
#: Spark's names in a checkpoint for operators with one state and one timeout for each key.
_WITH_TIMEOUT = ("applyInPandasWithState", "flatMapGroupsWithState")
_TRANSFORM = "transformWithState"
#: The name that Spark records for the time mode of event time.
_SPARK_EVENT_TIME = "EventTime"
_SPARK_NO_TIME = "NoTime"
#: The columns of Spark's reader that can have a state's values.
_VALUES = ("value", "list_element", "user_map_value")


@dataclass(frozen=True)
class SparkOperatorState:
    """The state of ``applyInPandasWithState``, ``transformWithState`` and similar operators."""

    _session: SparkSession
    _checkpoint: str
    _operator: int
    _time_domain: str
    _clock: int  # in ms
    #: Spark's name of the operator, and its recorded properties. Decisions depend on these, and not
    #: on the names of fields, which users choose.
    _name: str
    _properties: Mapping[str, Any]
    #: The names of the function's key columns.
    _key: Sequence[str]

    def read(self, state: str | None = None) -> DataFrame:
        """A state, with the columns that :func:`keystate.admin.create` takes.

        In a state with a time to live, a value is a struct of ``value`` and ``ttlExpirationMs``.
        Values that have expired by the clock of the pending batch, or else of the last one, are
        left out.

        Args:
            state: the name of a state of ``transformWithState``, which may be left out if there is
                one; ``applyInPandasWithState`` has one without a name, whose ``value`` has its
                fields.

        Raises:
            CheckpointError: there is no such state.
        """
        if self._is_transform:
            chosen = self._chosen(state)
            df = self._load({"stateVarName": chosen["stateName"]})
            return self._unexpired(df) if chosen["ttlEnabled"] else df
        if state is not None:
            raise self._no_state(f"no state '{state}'", "its state has no name, read it by read()")
        df = self._load({})
        if not self._has("groupState", df):
            return df
        return df.where("value.groupState is not null").selectExpr(
            "key", "value.groupState as value"
        )

    def timers(self) -> DataFrame:
        """The timers of ``transformWithState``, or the timeouts of ``applyInPandasWithState``.

        Raises:
            CheckpointError: the operator is of another kind, without timers.
        """
        if self._is_transform and self._properties.get("timeMode") != _SPARK_NO_TIME:
            df = self._load({"readRegisteredTimers": "true"})
        elif self._is_transform and self._states:
            # Spark refuses to read timers of an operator that can't have any.
            df = self._load({"stateVarName": self._states[0]["stateName"]})
            df = df.where("false").selectExpr("key", "-1L as expiration_timestamp_ms")
        elif self._name in _WITH_TIMEOUT:
            df = self._load({})
            timeout = f"value.{_TIMEOUT}" if self._has(_TIMEOUT, df) else "-1L"
            df = df.where(f"{timeout} >= 0").selectExpr(
                "key", f"{timeout} as expiration_timestamp_ms"
            )
        else:
            raise self._no_state("no timers", "only functions with state have some")
        return df.withColumn("time_domain", F.lit(self._time_domain))

    @property
    def _is_transform(self) -> bool:
        return self._name.startswith(_TRANSFORM)

    @property
    def _states(self) -> list[dict[str, Any]]:
        """Spark's records of the states of ``transformWithState``."""
        found = self._properties.get("stateVariables", [])
        # Others are Spark's own, such as timers.
        return [one for one in found if not one["stateName"].startswith("$")]

    def _chosen(self, state: str | None) -> dict[str, Any]:
        """Spark's record of a state of ``transformWithState``."""
        found = [one for one in self._states if state in (None, one["stateName"])]
        if len(found) != 1:
            names = ", ".join(one["stateName"] for one in self._states) or "none"
            what = f"no state '{state}'" if state is not None else f"{len(found) or 'no'} states"
            raise self._no_state(what, f"there are: {names}")
        chosen: dict[str, Any] = found[0]
        return chosen

    def _no_state(self, what: str, hint: str) -> CheckpointError:
        return CheckpointError(
            f"operator {self._operator} ({self._name}) of {self._checkpoint} has {what}: {hint}",
            code="KEYSTATE_NO_SUCH_STATE",
        )

    def _has(self, field: str, df: DataFrame) -> bool:
        """Whether the state's value has this internal field of Spark's."""
        value = df.schema["value"].dataType
        return (
            self._name in _WITH_TIMEOUT and isinstance(value, T.StructType) and field in value.names
        )

    def _unexpired(self, df: DataFrame) -> DataFrame:
        (column,) = (name for name in _VALUES if name in df.columns)
        return df.where(f"{column}.ttlExpirationMs > {self._clock}")

    def _load(self, options: dict[str, str]) -> DataFrame:
        reader = self._session.read.format("statestore").option("operatorId", self._operator)
        df = reader.options(**options).load(self._checkpoint)
        old = df.schema["key"].dataType
        if not isinstance(old, T.StructType) or len(old) != len(self._key):
            return df
        if not set(old.names).isdisjoint(self._key):
            return df
        # In Scala, keys are values, so no user has named their columns.
        columns = (
            F.col("key").getField(name).alias(new) for name, new in zip(old.names, self._key)
        )
        return df.withColumn("key", F.struct(*columns))


@dataclass(frozen=True)
class Successor:
    """A function that takes the place of one of Spark's operators, with its state.

    Args:
        function: the function, as for :func:`keystate.admin.create`.
        states: for each of its states, a function that makes the rows from the old state, or the
            name of an old state, whose rows are taken unchanged. Other states begin empty.
        key: the key columns with the names and types that they have in the new query. If the old
            key has none of these names, for example in a query in Scala, it is matched by position.
        timers: a function that makes its timers, such as ``SparkOperatorState.timers``.
        time_mode: the new operator's time mode, which also gives the domain of these timers. With
            ``"auto"`` it is the mode of the query that starts with the checkpoint, and timers have
            the domain that Spark recorded, which it does for ``transformWithState`` but not for
            ``applyInPandasWithState``.
        max_parallelism: its number of key groups.
    """

    function: Any
    states: Mapping[str, str | Callable[[SparkOperatorState], DataFrame]]
    key: TypeLike
    timers: Callable[[SparkOperatorState], DataFrame] | None = None
    time_mode: str = "auto"
    max_parallelism: int | None = None

    def add_to(self, editor: CheckpointEditor, old: SparkOperatorState) -> int:
        """Adds the function to a checkpoint; returns its number."""
        rows = {
            name: old.read(made) if isinstance(made, str) else made(old)
            for name, made in self.states.items()
        }
        number = editor.add_operator(
            self.function,
            key=self.key,
            states=rows,
            timers=None if self.timers is None else self.timers(old),
            time_mode=self.time_mode,
            max_parallelism=self.max_parallelism,
        )
        editor._note_successor(number)
        return number


def take_over(
    session: SparkSession,
    editor: CheckpointEditor,
    checkpoint: str,
    successors: Mapping[int, Successor],
    found: dict[str, Any],
) -> None:
    """Replaces Spark's operators by functions.

    Args:
        session: the session.
        editor: edits the checkpoint.
        checkpoint: the imported checkpoint.
        successors: the functions, by the numbers of the operators that they replace.
        found: the result of ``inspect`` for the checkpoint.
    """
    order = [one["id"] for one in found["operators"]]
    # A pending batch runs again at its own time, and finds nothing that has expired by then.
    batch = found["batch"] if found["pending"] is None else found["pending"]
    operators = {one["id"]: one for one in found["operators"]}
    for number, successor in successors.items():
        editor.drop_operator(number)
        properties = operators[number]["spark_properties"]
        by_event_time = successor.time_mode == TimeMode.EVENT_TIME.value
        if successor.time_mode == TimeMode.AUTO.value:
            recorded = properties.get("timeMode")
            if successor.timers is not None and recorded is None:
                raise DeclarationError(
                    f"operator {number}: Spark has not recorded whether its timeouts are by event "
                    "time: tell time_mode="
                )
            by_event_time = recorded == _SPARK_EVENT_TIME
        domain = TimeDomain.EVENT_TIME if by_event_time else TimeDomain.PROCESSING_TIME
        clock = bridge.operation(session, "clock", checkpoint, number, batch)["began_at"]
        old = SparkOperatorState(
            session,
            checkpoint,
            number,
            domain.name,
            clock,
            operators[number]["name"],
            properties,
            key_type_of(successor.key).names,
        )
        order[order.index(number)] = successor.add_to(editor, old)
    editor.order_operators(order)
