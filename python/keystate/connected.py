"""Two keyed streams whose rows one function takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from keystate._codec import Shape
from keystate._jvm import bridge
from keystate._operators.event_time import time_column
from keystate._operators.plans import co_plan
from keystate._operators.task import Declared, check_late_output, task_function
from keystate._operators.typed import output_schema_of
from keystate._worker.calls.plan import FunctionPlan
from keystate.co_functions import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction
from keystate.errors import DeclarationError
from keystate.functions import OutputTag
from keystate.side_outputs import ResultDataFrame
from keystate.state import TypeLike

#: A column that both inputs have, or the column of each.
OrderedBy = str | Column | tuple[str | Column, str | Column]


#: A column that both inputs have, or that of each.
EventTime = str | tuple[str | None, str | None] | None


#: Where late rows go: one side output for both inputs, or that of each.
LateOutput = OutputTag | tuple[OutputTag | None, OutputTag | None] | None


@dataclass(frozen=True)
class KeyedRows:
    """A keyed input: a DataFrame, its key columns, and what the rows of a key are sorted by."""

    df: DataFrame
    keys: Sequence[Column]
    order: Sequence[Column]
    max_parallelism: int | None
    shape: Shape | None = None

    @property
    def key_type(self) -> T.StructType:
        """The key's columns."""
        return self.df.select(*self.keys).schema


def same_types(key: T.StructType, other: T.StructType) -> bool:
    """Whether the columns of two keys have the same types, in the same order."""
    types, others = ([f.dataType.simpleString() for f in each] for each in (key, other))
    return types == others


class ConnectedStreams:
    """Two keyed streams that share state and timers by key.

    Made by ``keystate.keyed(a, "k").connect(keystate.keyed(b, "k"))``.

    Both are streams, or both batch DataFrames; or one is a stream and the other a batch DataFrame,
    whose rows then come once, before those of the query's first micro-batch.

    Within a micro-batch the rows of the first come before those of the second, unless `ordered_by`
    is given: a column that both have, or a pair of the first's and the second's, of one type. Then
    the rows of a key come sorted by it, whichever stream they are from; where they are equal in it,
    those of the first come first. Rows of a batch DataFrame that is connected to a stream are
    always first.
    """

    def __init__(self, first: KeyedRows, second: KeyedRows) -> None:
        keys = (first.key_type, second.key_type)
        if not same_types(*keys):
            ours, theirs = (key.simpleString()[len("struct") :] for key in keys)
            raise DeclarationError(
                "the key columns of both inputs must have the same types, in the same order: those "
                f"of the first are {ours}, of the second {theirs}; cast them to one type"
            )
        told = {rows.max_parallelism for rows in (first, second)} - {None}
        if len(told) > 1:
            raise DeclarationError(
                "streams that are connected have the same max_parallelism, got "
                f"{first.max_parallelism} and {second.max_parallelism}"
            )
        self._first = first
        self._second = second
        self._max_parallelism = next(iter(told), None)

    def process(
        self,
        fn: KeyedCoProcessFunction,
        output_schema: TypeLike | None = None,
        *,
        ordered_by: OrderedBy | None = None,
        name: str | None = None,
        time_mode: str = "auto",
        event_time: EventTime = None,
        late_output: LateOutput = None,
    ) -> ResultDataFrame:
        """Applies a function of each row and its context.

        Args:
            fn: the function.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            ordered_by: what the rows of a key are sorted by within a micro-batch, see above.
            name: the operator's name.
            time_mode: as for :meth:`KeyedStream.process`; with ``"auto"``, event time when either
                stream has a watermark. There is one watermark, Spark's: the least of those of the
                query's inputs, unless ``spark.sql.streaming.multipleWatermarkPolicy`` is ``max``.
            event_time: the column with a row's event time, for ``ctx.timestamp()``: of both, or a
                pair of the first's and the second's, each of which may be ``None``. Of a stream it
                is the one that the watermark is defined on, and need not be told; a batch DataFrame
                has no watermark.
            late_output: the side outputs for late rows of the first and of the second stream, each
                with that stream's schema or ``None``; or one for both, if they have one schema.

        Raises:
            DeclarationError: the function, one of its states or the schema is not well declared.
        """
        times = _time_columns(event_time, self._first.df, self._second.df)
        plan = dataclasses.replace(co_plan(fn, KeyedCoProcessFunction), time_columns=times)
        return self._apply(plan, output_schema, ordered_by, name, time_mode, late_output)

    def map(
        self,
        fn: CoMapFunction,
        output_schema: TypeLike | None = None,
        *,
        ordered_by: OrderedBy | None = None,
        name: str | None = None,
    ) -> DataFrame:
        """Applies a function of each row with one result."""
        plan = co_plan(fn, CoMapFunction)
        return self._apply(plan, output_schema, ordered_by, name)

    def flat_map(
        self,
        fn: CoFlatMapFunction,
        output_schema: TypeLike | None = None,
        *,
        ordered_by: OrderedBy | None = None,
        name: str | None = None,
    ) -> ResultDataFrame:
        """Applies a function of each row with any number of results."""
        plan = co_plan(fn, CoFlatMapFunction)
        return self._apply(plan, output_schema, ordered_by, name)

    def _apply(
        self,
        plan: FunctionPlan,
        output_schema: TypeLike | None,
        ordered_by: OrderedBy | None,
        name: str | None,
        time_mode: str = "auto",
        late_output: LateOutput = None,
    ) -> ResultDataFrame:
        first, second = self._first, self._second
        merge = _pair(ordered_by, first.df, second.df)
        inputs = (
            [
                dataclasses.replace(rows, order=[column, *rows.order])
                for rows, column in zip((first, second), merge)
            ]
            if merge
            else [first, second]
        )
        declared = Declared(
            first.df.schema,
            first.key_type,
            output_schema_of(plan.function, output_schema),
            name,
            self._max_parallelism,
            time_mode,
            second_type=second.df.schema,
            row_shape=first.shape,
            second_shape=second.shape,
            late_outputs=_late_outputs(late_output, first.df, second.df),
        )

        def run(tags: tuple[OutputTag, ...]) -> DataFrame:
            allowed = bridge.allowed_pickles(first.df.sparkSession)
            whole = dataclasses.replace(declared, side_outputs=tags, pickles=allowed)
            return bridge.process_two(
                [rows.df for rows in inputs],
                [rows.keys for rows in inputs],
                [rows.order for rows in inputs],
                bool(merge),
                task_function(plan, whole),
            )

        return ResultDataFrame(run)


def _time_columns(
    event_time: EventTime, first: DataFrame, second: DataFrame
) -> tuple[int | None, int | None]:
    """The indexes of the columns of both with the event time."""
    pair = event_time if isinstance(event_time, tuple) else (event_time, event_time)
    if len(pair) != 2:
        raise DeclarationError(
            "event_time is a column that both inputs have, or a pair of the first input's column "
            f"and the second's, got {event_time!r}"
        )
    return time_column(first, pair[0]), time_column(second, pair[1])


def _late_outputs(
    late_output: LateOutput, first: DataFrame, second: DataFrame
) -> tuple[OutputTag | None, ...]:
    """The side output for late rows of each input."""
    pair = late_output if isinstance(late_output, tuple) else (late_output, late_output)
    if len(pair) != 2:
        raise DeclarationError(
            "late_output is an OutputTag, or a pair of those for the first input and the second, "
            f"got {late_output!r}"
        )
    for tag, df in zip(pair, (first, second)):
        if tag is not None:
            check_late_output(tag, df.schema)
    return pair


def _pair(ordered_by: OrderedBy | None, first: DataFrame, second: DataFrame) -> list[Column]:
    """The columns of both that `ordered_by` names; none if it is not given."""
    if ordered_by is None:
        return []
    pair = ordered_by if isinstance(ordered_by, tuple) else (ordered_by, ordered_by)
    if len(pair) != 2 or not all(isinstance(column, (str, Column)) for column in pair):
        raise DeclarationError(
            "ordered_by is a column that both inputs have, or a pair of the first input's column "
            f"and the second's, got {ordered_by!r}"
        )
    return [df[c] if isinstance(c, str) else c for df, c in zip((first, second), pair)]
