"""The harness of functions of two inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Row

from keystate._spec import resolve_schema
from keystate.functions import OutputTag
from keystate.state import TypeLike
from keystate.testing._base import OperatorHarness
from keystate.testing._rows import InputRows, Rows
from keystate.testing._settings import LateOutput, TwoInputSettings, names_of
from keystate.testing._snapshot import Snapshot


class KeyedTwoInputHarness(OperatorHarness):
    """Runs a function of two keyed inputs without Spark, as :class:`KeyedProcessHarness` does.

    Args:
        fn: a :class:`~keystate.co_functions.KeyedCoProcessFunction`, a
            :class:`~keystate.co_functions.CoMapFunction` or a
            :class:`~keystate.co_functions.CoFlatMapFunction`.
        input_schema1: the rows of the first input: DDL, DataType or dataclass.
        key_cols1: the name of its key column, or the names of several.
        input_schema2: the rows of the second input.
        key_cols2: its key columns, of the same types.
        output_schema: the rows it emits.
        parallelism: the number of subtasks.
        max_parallelism: the number of key groups.
        event_time1: the column of the first input that would have a watermark, if one has.
        event_time2: the same of the second input.
        order_by1: the names of columns by which the first input's rows are sorted in a micro-batch.
        order_by2: the same of the second input.
        ordered_by: the column that the rows of both come sorted by, or the pair of the first
            input's and the second's; else those of the first come before those of the second.
        time_mode: as for :meth:`keystate.KeyedStream.process`.
        name: the operator's name.
        pickle_allow: as the setting ``spark.keystate.pickle.allow``.
        side_outputs: as for :class:`KeyedProcessHarness`.
        late_output: likewise; of both inputs, or a pair of one for the first input and one for the
            second, each of which may be ``None``.

    Raises:
        DeclarationError: the function, one of its states or a schema is not well declared.
    """

    def __init__(
        self,
        fn: Any,
        input_schema1: TypeLike,
        key_cols1: str | Sequence[str],
        input_schema2: TypeLike,
        key_cols2: str | Sequence[str],
        output_schema: TypeLike,
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        event_time1: str | None = None,
        event_time2: str | None = None,
        order_by1: str | Sequence[str] = (),
        order_by2: str | Sequence[str] = (),
        ordered_by: str | tuple[str, str] | None = None,
        time_mode: str = "auto",
        name: str | None = None,
        pickle_allow: Sequence[str] = (),
        side_outputs: Sequence[OutputTag] = (),
        late_output: LateOutput = None,
        **others: Any,
    ) -> None:
        if others:
            raise _not_an_argument(next(iter(others)))
        settings = TwoInputSettings(
            resolve_schema(input_schema1, "the first input schema"),
            names_of(key_cols1),
            resolve_schema(output_schema, "the output schema"),
            max_parallelism,
            event_time1,
            time_mode,
            name,
            None,
            (),
            tuple(pickle_allow),
            names_of(order_by1),
            tuple(side_outputs),
            None,
            resolve_schema(input_schema2, "the second input schema"),
            names_of(key_cols2),
            event_time2,
            names_of(order_by2),
            (ordered_by, ordered_by) if isinstance(ordered_by, str) else ordered_by,
            late_output=late_output,
        )
        first, second = settings.orders()
        misfit = "a row does not fit the {} input schema"
        self._inputs = (
            InputRows(
                settings.input_schema, settings.event_time_column, first, misfit.format("first")
            ),
            InputRows(
                settings.second_schema,
                settings.second_event_time_column,
                second,
                misfit.format("second"),
            ),
        )
        self._merged = ordered_by is not None
        self._set_up(fn, settings, parallelism)

    @classmethod
    def restore(
        cls,
        snapshot: Snapshot,
        fn: Any,
        *,
        parallelism: int = 1,
        output_schema: TypeLike | None = None,
    ) -> KeyedTwoInputHarness:
        """A harness that goes on from a snapshot; see :meth:`KeyedProcessHarness.restore`."""
        return cls._restored(snapshot, fn, parallelism, output_schema=output_schema)

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
