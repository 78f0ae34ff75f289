"""The harness of functions of one input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from keystate._operators.definition import InputRole
from keystate._operators.schema_rows import SchemaRows
from keystate._spec.specs import resolve_schema
from keystate.errors import DeclarationError
from keystate.functions import OutputTag
from keystate.state import TypeLike
from keystate.testing._base import OperatorHarness
from keystate.testing._job import Clock
from keystate.testing._rows import Encoder, InputEncoder, Rows
from keystate.testing._setup import Setup
from keystate.testing._short import one_input, rows_of

#: Options that belong to a function, and are not kept in a snapshot.
_OF_ASYNC_FUNCTIONS = ("capacity", "timeout", "retry", "ordered")


class KeyedProcessHarness(OperatorHarness):
    """Runs a keyed function without Spark: no JVM is started.

    The function meets the worker's own code, so values, types, errors and orders are those of a
    query. Each call of :meth:`process`, :meth:`process_batch`, :meth:`advance_watermark` and
    :meth:`set_processing_time` is one micro-batch of a stream: first its rows are processed, then
    the timers fire whose time has come, in order of time. A micro-batch in which the function fails
    changes no state; the function is closed, and opened anew for the next one.

    Each subtask unpickles a function of its own, as in a query.

    A harness is made of an operator, as :meth:`of` says; or, in short, of a function and the schema
    of its rows.

    Args:
        fn: a :class:`~keystate.functions.KeyedProcessFunction`, a function of another class that
            streams take, or a callable with the arguments of ``process_element``. It may be a
            :class:`~keystate.functions.CheckpointedFunction` or the like as well. For windows it is
            what the methods of :func:`keystate.windows.window` return.
        input_schema: the rows that come in: DDL, DataType or dataclass.
        key_cols: the name of the key column, or the names of several; none for a function of a
            stream without keys.
        output_schema: the rows it emits: DDL, DataType or dataclass. May be left out as for
            :meth:`keystate.KeyedStream.process`.
        parallelism: the number of subtasks.
        max_parallelism: the number of key groups.
        event_time: the input column that the watermark goes by, as in ``df.withWatermark``: a
            timestamp, or a window. Without one there is no watermark.
        order_by: as for :func:`keystate.keyed`: names of columns.
        row_type: as for :func:`keystate.keyed`.
        side_outputs: the side outputs that :meth:`side_output` shows; results for others are
            dropped.
        pickle_allow: as the setting ``spark.keystate.pickle.allow``.
        options: of the stream's method that takes the function, such as `time_mode`, `late_output`
            and `name`.

    Raises:
        DeclarationError: as for a query.
    """

    def __init__(
        self,
        fn: Any,
        input_schema: TypeLike,
        key_cols: str | Sequence[str],
        output_schema: TypeLike | None = None,
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        event_time: str | None = None,
        order_by: str | Sequence[str] = (),
        row_type: type | None = None,
        side_outputs: Sequence[OutputTag] = (),
        pickle_allow: Sequence[str] = (),
        **options: Any,
    ) -> None:
        df = rows_of(input_schema, event_time=event_time)
        if output_schema is not None:
            output_schema = resolve_schema(output_schema, "the output schema")
        keyed_by = {"order_by": order_by, "row_type": row_type}
        made = one_input(fn, df, key_cols, output_schema, keyed_by, options)
        self._arguments = {
            "input_schema": df.schema,
            "key_cols": key_cols,
            "output_schema": output_schema,
            "max_parallelism": max_parallelism,
            "event_time": event_time,
            **keyed_by,
            "side_outputs": tuple(side_outputs),
            "pickle_allow": tuple(pickle_allow),
            **{name: value for name, value in options.items() if name not in _OF_ASYNC_FUNCTIONS},
        }
        self._set_up(made, parallelism, max_parallelism, side_outputs, pickle_allow)

    def _read_inputs(self, setup: Setup) -> None:
        second = setup.operator.second_input
        self._rows = InputEncoder(setup.operator.rows, "a row does not fit the input schema")
        self._elements: Encoder | None = None
        if second is None:
            return
        row_type = second.rows.row_type
        if second.role is InputRole.INITIAL:
            assert isinstance(second.rows.df, SchemaRows)
            encoder = Encoder(row_type, "a row does not fit the initial state schema")
            self._initial = encoder.encode(second.rows.df.batch or ())
        elif second.role is InputRole.BROADCAST:
            self._elements = Encoder(row_type, "an element does not fit the broadcast schema")
        else:
            raise DeclarationError("two inputs are connected: use KeyedTwoInputHarness")

    def _no_rows(self) -> Rows:
        return self._with_initial_state(self._rows.encode([]))

    def _with_initial_state(self, rows: pa.Array) -> Rows:
        """A micro-batch's rows, and before those of the first one the initial state."""
        if self._initial is None:
            return Rows([rows])
        initial = self._initial if self._clock.batch_id < 0 else self._initial[:0]
        order = [(1, i) for i in range(len(initial))] + [(0, i) for i in range(len(rows))]
        return Rows([rows, initial], order)

    # -- micro-batches ---------------------------------------------------------------------------

    def process(self, row: Any, timestamp: int | None = None) -> list[Row]:
        """Runs a micro-batch of one row; returns what it emits.

        Args:
            row: a Row, tuple, dict or dataclass of the input schema, or the bare value if that has
                one column.
            timestamp: the row's event time in ms since the epoch, put into the event time column.
        """
        rows = self._rows.encode([row])
        if timestamp is not None:
            rows = self._rows.with_event_time(rows, timestamp)
        return self._run_rows(rows, self._clock)

    def process_broadcast(self, element: Any) -> list[Row]:
        """Runs a micro-batch of one broadcast element; returns what the subtasks emit.

        Args:
            element: a Row, tuple, dict or dataclass of the broadcast schema, or the bare value if
                that has one column.
        """
        return self.process_batch([], broadcast=[element])

    def process_batch(
        self,
        rows: Iterable[Any],
        *,
        broadcast: Iterable[Any] = (),
        watermark: int | None = None,
        processing_time: int | None = None,
    ) -> list[Row]:
        """Runs a micro-batch of rows; returns what it emits, subtask by subtask.

        Rows whose event time is at or behind the watermark of the micro-batch before are dropped,
        as Spark does it, and counted in :attr:`num_late_rows`, unless there is a late output. At
        first the watermark is 0.

        Args:
            rows: as for :meth:`process`.
            broadcast: elements that every subtask has before its rows, as for
                :meth:`process_broadcast`.
            watermark: the watermark of this micro-batch, by which its timers fire, in ms.
            processing_time: this micro-batch's time, in ms.
        """
        clock = self._clock_at(watermark, processing_time)
        return self._run_rows(self._rows.encode(rows), clock, self._encode(broadcast))

    def _run_rows(
        self, rows: pa.Array, clock: Clock, elements: pa.Array | None = None
    ) -> list[Row]:
        late: list[Row] = []
        if not self._job.takes_late_rows:
            rows, late = self._rows.on_time(rows, self._clock.watermark)
        ordered = self._with_initial_state(self._rows.ordered(rows))
        return self._run(ordered, [late], clock, elements)

    def _encode(self, elements: Iterable[Any]) -> pa.Array | None:
        if self._elements is None:
            if list(elements):
                raise DeclarationError(
                    "there are no broadcast elements: connect the stream to keystate.broadcast(...)"
                )
            return None
        encoded = self._elements.encode(elements)
        return encoded if len(encoded) else None
