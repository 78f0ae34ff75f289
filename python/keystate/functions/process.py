"""Functions of one input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from keystate.functions.base import Function, Results
from keystate.functions.contexts import Context, OnTimerContext
from keystate.functions.type_variables import IN, KEY, OUT
from keystate.state.aggregates import AggregateFunction as AggregateFunction
from keystate.state.aggregates import Reducer

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class ProcessFunction(Function, ABC, Generic[IN, OUT]):
    """A function of one row of a stream without keys, with any number of results."""

    @abstractmethod
    def process_element(self, value: IN, ctx: Context) -> Results[OUT]:
        """Processes one row; results as for :meth:`KeyedProcessFunction.process_element`."""


class SinkFunction(Function, ABC, Generic[IN]):
    """Takes rows out of the query.

    A micro-batch that failed runs again, so a row can come more than once. To write each row only
    once, write rows by an id, or be a :class:`keystate.sinks.TwoPhaseCommitSink`.
    """

    @abstractmethod
    def invoke(self, value: IN, context: Context) -> None:
        """Takes one row."""


class KeyedProcessFunction(Function, ABC, Generic[KEY, IN, OUT]):
    """A function of one row and its key's state, with any number of results.

    ``KeyedProcessFunction[str, Trade, Alert]`` declares the types of its key, row and result.
    """

    @abstractmethod
    def process_element(self, value: IN, ctx: Context[KEY]) -> Results[OUT]:
        """Processes one row.

        Returns or yields any number of results: Row, tuple, dict or dataclass, or a bare value for
        a one-column schema; ``None`` for no result. A list, an iterator or a generator is many
        results, a tuple is one. A pair of an :class:`OutputTag` and a result goes to a side output.
        Keystate takes a result as it is when it is returned or yielded: later changes of the object
        do not matter.

        Raises:
            OutputTypeError: a result does not fit the output schema; the function itself does not
                see this error.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext[KEY]) -> Results[OUT]:
        """Called when a timer fires, with its time in ms; results as for ``process_element``."""
        return None

    def process_initial_state(self, row: Any, ctx: Context) -> None:
        """Takes one row of ``initial_state`` of :meth:`keystate.KeyedStream.process`.

        States and timers are those of the row's key. Called for all rows of the initial state
        before the first row of the stream, in the query's first micro-batch only. It emits nothing.
        ``ctx.timestamp()`` is ``None``.
        """


@dataclass(frozen=True)
class KeyedBatch:
    """Rows for a :class:`KeyedBatchFunction`, and their keys.

    Attributes:
        rows: the input's columns.
        keys: the key columns, each key once.
        key_of_row: for each row the index of its key in `keys`, int32.
    """

    rows: pa.RecordBatch
    keys: pa.RecordBatch
    key_of_row: pa.Array


class KeyedBatchFunction(Function, ABC):
    """A function of many rows at once and the states of their keys, as Arrow columns.

    It has value states only. Here ``value()`` returns an array with a value, null or the default
    for each key in `batch.keys`, and ``update(values)`` takes an array in the same order; a null
    clears the key's state.
    """

    @abstractmethod
    def process_batch(self, batch: KeyedBatch, ctx: Context) -> Any:
        """Processes some rows of a micro-batch; how many at a time is not defined.

        The rows of a key come in the same order as in ``process_element``. Returns the results as
        an Arrow table, a record batch or a dictionary of columns, with the output schema's columns
        by name; ``None`` for no results.
        """


class MapFunction(Function, ABC, Generic[IN, OUT]):
    """One result for each row."""

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Returns the result."""


class FlatMapFunction(Function, ABC, Generic[IN, OUT]):
    """Any number of results for each row."""

    @abstractmethod
    def flat_map(self, value: IN) -> Results[OUT]:
        """Returns or yields the results, as :meth:`KeyedProcessFunction.process_element` does."""


class FilterFunction(Function, ABC, Generic[IN]):
    """Keeps some of the rows."""

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Returns whether to keep the row."""


class ReduceFunction(Function, Reducer):
    """Combines two values into one of the same type."""
