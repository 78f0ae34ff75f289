"""Stateful sources: a function that produces rows, as a streaming DataFrame.

Keystate records the rows that a source collected for a micro-batch, and the source's state after
them, before Spark learns of the batch. So a batch is replayed with the same rows, and a restarted
source continues after the last of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from keystate._jvm import bridge
from keystate._operators.discovery import discover_operator_states
from keystate._operators.pickling import pickled, refuse_broadcasts
from keystate._spec.specs import check_columns, resolve_schema
from keystate._worker.sources.process import SourceSpec, StatefulDataSource
from keystate.errors import DeclarationError
from keystate.functions import Function
from keystate.state import TypeLike


class SourceContext(Protocol):
    """The context of :meth:`SourceFunction.run`, which emits rows."""

    def collect(self, row: Any) -> None:
        """Emits a row: Row, tuple, dict, dataclass, or a bare value for a one-column schema.

        Don't change a row after it was collected.
        """

    def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
        """The lock under which snapshots are taken.

        Hold it while you collect rows and update the state that belongs to them: rows and state
        from one ``with`` block are in one micro-batch. Entering it waits while the micro-batch is
        full.
        """

    def mark_as_temporarily_idle(self) -> None:
        """Reports that there are no rows now, until the next ``collect``.

        A query with the trigger ``availableNow`` ends when all instances are idle or have returned.
        """


class SourceFunction(Function, ABC):
    """A source with one instance.

    To keep an offset, be a :class:`~keystate.functions.ListCheckpointed` or a
    :class:`~keystate.functions.CheckpointedFunction` too. Without state a restarted source begins
    from the start; without a restart no row is emitted twice.
    """

    @abstractmethod
    def run(self, ctx: SourceContext) -> None:
        """Emits rows until there are no more or :meth:`cancel` was called.

        Called once in a query run, in a thread of its own, after ``initialize_state`` (or
        ``restore_state``) and ``open``.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Makes :meth:`run` return soon. Called from another thread when the query stops."""


class RichSourceFunction(SourceFunction, ABC):
    """A source with one instance; all sources have ``open`` and ``close``."""


class ParallelSourceFunction(SourceFunction, ABC):
    """A source with any number of instances; each gets its number in ``open``."""


class RichParallelSourceFunction(ParallelSourceFunction, ABC):
    """A source with any number of instances; all sources have ``open`` and ``close``."""


def source(
    spark: SparkSession,
    fn: SourceFunction,
    schema: TypeLike,
    *,
    parallelism: int = 1,
    max_rows_per_batch: int = 100_000,
    max_batch_duration: float | timedelta = 0.1,
    available_now_rows: int = 10_000_000,
    available_now_duration: float | timedelta = 600.0,
    name: str | None = None,
) -> DataFrame:
    """A streaming DataFrame of the rows that a source function emits.

    The instances run in threads of one Python process next to the driver; a micro-batch is cut when
    the query asks for one. Rows of an instance stay in their order, in one partition of the input.

    Args:
        spark: a session made with :func:`keystate.configure`.
        fn: a :class:`SourceFunction`; for more than one instance a :class:`ParallelSourceFunction`.
        schema: the rows it emits: DDL, DataType or dataclass.
        parallelism: the number of instances. May change at a restart: then list state is spread
            over the new number.
        max_rows_per_batch: the most rows of a micro-batch, in equal shares for the instances; an
            instance with its share waits for the next micro-batch. One ``with`` block may exceed
            it.
        max_batch_duration: how long a micro-batch collects rows if it isn't full before, in
            seconds.
        available_now_rows: a query with the trigger ``availableNow`` ends after this number of
            rows, even if the source has more; the next query continues from there.
        available_now_duration: such a query also ends after this number of seconds.
        name: the source's name in plans and progress; by default the function's class.

    Raises:
        DeclarationError: the function, a state of it, the schema or a limit is not well declared.
    """
    bridge.check_source_session(spark)
    if isinstance(fn, type):
        raise DeclarationError(f"expected an object, got the class {fn.__name__}: add ()")
    if not isinstance(fn, SourceFunction):
        raise DeclarationError(f"expected a SourceFunction, got {fn!r}")
    if parallelism < 1:
        raise DeclarationError(f"parallelism must be at least 1, got {parallelism}")
    if parallelism > 1 and not isinstance(fn, ParallelSourceFunction):
        raise DeclarationError(
            f"parallelism is {parallelism}, but {type(fn).__name__} is not a ParallelSourceFunction"
        )
    if max_rows_per_batch < parallelism:
        raise DeclarationError(
            "max_rows_per_batch must be at least 1 for every instance, got "
            f"{max_rows_per_batch} for {parallelism}"
        )
    if available_now_rows < 1:
        raise DeclarationError(f"available_now_rows must be at least 1, got {available_now_rows}")
    row_type = resolve_schema(schema, "the source's schema")
    check_columns(row_type, "the source's schema")
    function = pickled(fn, fn)
    refuse_broadcasts(function, fn, "which a source can't have")
    source_spec = SourceSpec(
        name or type(fn).__name__,
        function.data,
        row_type,
        discover_operator_states(function),
        parallelism,
        max_rows_per_batch,
        _seconds(max_batch_duration, "max_batch_duration"),
        bridge.allowed_pickles(spark),
    )
    limit = _seconds(available_now_duration, "available_now_duration")
    return bridge.source(
        spark,
        source_spec.name,
        row_type,
        StatefulDataSource(source_spec),
        available_now_rows,
        int(limit * 1000),
    )


def _seconds(duration: float | timedelta, what: str) -> float:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if seconds <= 0:
        raise DeclarationError(f"{what} must be positive, got {duration!r}")
    return seconds
