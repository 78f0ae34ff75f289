"""The harness of functions of two inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Row

from keystate._operators.definition import InputRole
from keystate._spec.specs import resolve_schema
from keystate.errors import DeclarationError
from keystate.functions import OutputTag
from keystate.state import TypeLike
from keystate.testing._base import OperatorHarness
from keystate.testing._rows import InputEncoder, Rows
from keystate.testing._setup import Setup
from keystate.testing._short import rows_of, two_inputs

#: The options that belong to the method of the connected streams.
_OPTIONS = {"ordered_by", "time_mode", "late_output", "on_error", "name"}


class KeyedTwoInputHarness(OperatorHarness):
    """Runs a function of two keyed inputs without Spark, as :class:`KeyedProcessHarness` does.

    Args:
        fn: a :class:`~keystate.functions.KeyedCoProcessFunction`, a
            :class:`~keystate.functions.CoMapFunction` or a
            :class:`~keystate.functions.CoFlatMapFunction`.
        input_schema1: the rows of the first input: DDL, DataType or dataclass.
        key_cols1: the name of its key column, or the names of several.
        input_schema2: the rows of the second input.
        key_cols2: its key columns, of the same types.
        output_schema: the rows it emits.
        parallelism: the number of subtasks.
        max_parallelism: the number of key groups.
        event_time1: the watermark's column of the first input, if it has a watermark.
        event_time2: the watermark's column of the second input, if it has one.
        side_outputs: as for :class:`KeyedProcessHarness`.
        options: `ordered_by`, `time_mode`, `late_output` and `name`, as for
            :meth:`keystate.ConnectedStreams.process`.

    Raises:
        DeclarationError: as for a query.
    """

    def __init__(
        self,
        fn: Any,
        input_schema1: TypeLike,
        key_cols1: str | Sequence[str],
        input_schema2: TypeLike,
        key_cols2: str | Sequence[str],
        output_schema: TypeLike | None = None,
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        event_time1: str | None = None,
        event_time2: str | None = None,
        side_outputs: Sequence[OutputTag] = (),
        **options: Any,
    ) -> None:
        for name in options.keys() - _OPTIONS:
            raise _not_an_argument(name)
        first = rows_of(input_schema1, event_time=event_time1)
        second = rows_of(input_schema2, event_time=event_time2)
        if output_schema is not None:
            output_schema = resolve_schema(output_schema, "the output schema")
        made = two_inputs(fn, (first, key_cols1), (second, key_cols2), output_schema, options)
        self._arguments = {
            "input_schema1": first.schema,
            "key_cols1": key_cols1,
            "input_schema2": second.schema,
            "key_cols2": key_cols2,
            "output_schema": output_schema,
            "max_parallelism": max_parallelism,
            "event_time1": event_time1,
            "event_time2": event_time2,
            "side_outputs": tuple(side_outputs),
            **options,
        }
        self._set_up(made, parallelism, max_parallelism, side_outputs, ())

    def _read_inputs(self, setup: Setup) -> None:
        second = setup.operator.second_input
        if second is None or second.role not in (InputRole.CONNECTED, InputRole.MERGED):
            raise DeclarationError("no two keyed inputs are connected: use KeyedProcessHarness")
        self._merged = second.role is InputRole.MERGED
        self._inputs = [
            InputEncoder(each, f"a row does not fit the {which} input schema")
            for each, which in zip(setup.inputs, ("first", "second"))
        ]

    def process1(self, row: Any, timestamp: int | None = None) -> list[Row]:
        """Runs a micro-batch of one row of the first input; returns what it emits.

        Args:
            row: a Row, tuple, dict or dataclass of the input's schema, or the bare value if that
                has one column.
            timestamp: the row's event time in ms since the epoch, put into the event time column.
        """
        return self._process(0, row, timestamp)

    def process2(self, row: Any, timestamp: int | None = None) -> list[Row]:
        """Runs a micro-batch of one row of the second input; returns what it emits.

        Args:
            row: a Row, tuple, dict or dataclass of the input's schema, or the bare value if that
                has one column.
            timestamp: the row's event time in ms since the epoch, put into the event time column.
        """
        return self._process(1, row, timestamp)

    def process_batch(
        self,
        rows1: Iterable[Any] = (),
        rows2: Iterable[Any] = (),
        *,
        watermark: int | None = None,
        processing_time: int | None = None,
    ) -> list[Row]:
        """Runs a micro-batch of rows of both inputs; returns what it emits, subtask by subtask.

        Late rows of an input with event time are dropped or go to its late output, as by
        :meth:`KeyedProcessHarness.process_batch`.

        Args:
            rows1: of the first input, as for :meth:`process1`.
            rows2: of the second input.
            watermark: the watermark of this micro-batch, by which its timers fire, in ms.
            processing_time: this micro-batch's time, in ms.
        """
        clock = self._clock_at(watermark, processing_time)
        arrays = [each.encode(rows) for each, rows in zip(self._inputs, (rows1, rows2))]
        return self._run(*self._arranged(arrays), clock)

    def _process(self, index: int, row: Any, timestamp: int | None) -> list[Row]:
        arrays = [each.encode([row] if i == index else []) for i, each in enumerate(self._inputs)]
        if timestamp is not None:
            arrays[index] = self._inputs[index].with_event_time(arrays[index], timestamp)
        return self._run(*self._arranged(arrays), self._clock)

    def _no_rows(self) -> Rows:
        return Rows([each.encode([]) for each in self._inputs], [])

    def _arranged(self, arrays: Sequence[Any]) -> tuple[Rows, list[list[Row]]]:
        """The rows that are not late, in their order, and those of each input that are."""
        watermark = self._clock.watermark
        on_time = [each.on_time(rows, watermark) for each, rows in zip(self._inputs, arrays)]
        kept = [each.ordered(rows) for each, (rows, _) in zip(self._inputs, on_time)]
        order = [(i, at) for i, rows in enumerate(kept) for at in range(len(rows))]
        if self._merged:
            times = [
                [keys[0] for keys in each.sort_keys(rows)] for each, rows in zip(self._inputs, kept)
            ]
            order.sort(key=lambda place: times[place[0]][place[1]])
        return Rows(kept, order), [late for _, late in on_time]


def _not_an_argument(name: str) -> TypeError:
    told = f"KeyedTwoInputHarness has no argument '{name}'"
    if name in ("event_time", "order_by", "input_schema", "key_cols"):
        told = f"{told}: each input has one of its own, {name}1 and {name}2"
    return TypeError(told)
