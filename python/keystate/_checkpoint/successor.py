"""Functions that go on from the state of Spark's own operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keystate._checkpoint.editor import CheckpointEditor
from keystate._jvm import bridge
from keystate._time_mode import TimeMode
from keystate.functions import TimeDomain
from keystate.state import TypeLike

_TIMEOUT = "timeoutTimestamp"
#: The fields of a stored value that has a time to live.
_EXPIRING = ["value", "ttlExpirationMs"]


@dataclass(frozen=True)
class SparkOperatorState:
    """The state of an ``applyInPandasWithState``, a ``transformWithState`` and the like."""

    _session: SparkSession
    _checkpoint: str
    _operator: int
    _time_domain: str
    _clock: int  # in ms

    def read(self, state: str | None = None) -> DataFrame:
        """A state, with the columns that :func:`keystate.admin.create` takes.

        Of a state with a time to live a value is a struct of ``value`` and ``ttlExpirationMs``.
        What has expired is left out, by the clock of the batch that is pending, or else of the last
        one.

        Args:
            state: the name of a state of ``transformWithState``; it may be left out for
                ``applyInPandasWithState``, whose ``value`` has the fields of its state.
        """
        df = self._load({} if state is None else {"stateVarName": state})
        group = _field(df, "groupState")
        if group is None:
            return self._unexpired(df)
        return df.where(f"value.{group} is not null").selectExpr("key", f"value.{group} as value")

    def timers(self) -> DataFrame:
        """The timers of ``transformWithState``, or the timeouts of ``applyInPandasWithState``."""
        df = self._load({})
        if _field(df, "groupState") is not None:
            if _field(df, _TIMEOUT) is None:
                df = df.withColumn("value", F.struct(F.lit(-1).cast("long").alias(_TIMEOUT)))
            df = df.where(f"value.{_TIMEOUT} >= 0").selectExpr(
                "key", f"value.{_TIMEOUT} as expiration_timestamp_ms"
            )
        else:
            df = self._load({"readRegisteredTimers": "true"})
        return df.withColumn("time_domain", F.lit(self._time_domain))

    def _unexpired(self, df: DataFrame) -> DataFrame:
        for field in df.schema.fields:
            value = field.dataType
            if isinstance(value, T.StructType) and value.names == _EXPIRING:
                return df.where(f"{field.name}.ttlExpirationMs > {self._clock}")
        return df

    def _load(self, options: dict[str, str]) -> DataFrame:
        reader = self._session.read.format("statestore").option("operatorId", self._operator)
        return reader.options(**options).load(self._checkpoint)


def _field(df: DataFrame, name: str) -> str | None:
    value = df.schema["value"].dataType if "value" in df.columns else None
    return name if isinstance(value, T.StructType) and name in value.names else None


@dataclass(frozen=True)
class Successor:
    """A function that takes the place of one of Spark's operators, with its state.

    Args:
        function: the function, as for :func:`keystate.admin.create`.
        states: for each of its states what makes its rows of the old state; the others begin empty.
            A name in the place of a function is that of an old state, whose rows are taken as they
            are.
        key: the key columns with the names and types that they have in the new query.
        timers: what makes its timers, such as ``SparkOperatorState.timers``.
        time_mode: the new operator's.
        max_parallelism: its number of key groups.
    """

    function: Any
    states: Mapping[str, str | Callable[[SparkOperatorState], DataFrame]]
    key: TypeLike
    timers: Callable[[SparkOperatorState], DataFrame] | None = None
    time_mode: str = "none"
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
    """Puts functions in the places of Spark's operators.

    Args:
        session: the session.
        editor: of the checkpoint.
        checkpoint: one that was imported.
        successors: by the numbers of the operators that they replace.
        found: what ``inspect`` found in the checkpoint.
    """
    order = [one["id"] for one in found["operators"]]
    # A pending batch runs again at its own time, and finds nothing that has expired by then.
    batch = found["batch"] if found["pending"] is None else found["pending"]
    for number, successor in successors.items():
        by_event_time = successor.time_mode == TimeMode.EVENT_TIME.value
        domain = TimeDomain.EVENT_TIME if by_event_time else TimeDomain.PROCESSING_TIME
        editor.drop_operator(number)
        clock = bridge.operation(session, "clock", checkpoint, number, batch)["began_at"]
        old = SparkOperatorState(session, checkpoint, number, domain.name, clock)
        order[order.index(number)] = successor.add_to(editor, old)
    editor.order_operators(order)
