"""What windows hold: one accumulator each, or their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pyspark.sql import types as T

from keystate._spec.protocol import WINDOW_CONTENTS
from keystate._spec.specs import resolve_type
from keystate._types.codec import Misfit, Shape, codec
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.reduction import as_given, reduction
from keystate._worker.state.window_maps import WindowMapDescriptor, WorkerWindowMapState
from keystate.errors import StateTypeError
from keystate.functions import KeyedStateStore
from keystate.state import TypeLike, ValueStateDescriptor
from keystate.state.aggregates import AggregateFunction
from keystate.windows._evictors import TimestampedValue
from keystate.windows._window import LAST_TIME, WindowKey

#: The names of the states with accumulators, also of windows that are merged, and with rows.
CONTENTS, SESSIONS, ELEMENTS = WINDOW_CONTENTS

#: The first key of some rows, and the first one after them.
Range = tuple[tuple[int, int, int], tuple[int, int, int]]


class Fold(ABC):
    """Makes one accumulator of rows; ``None`` is that of no rows.

    Args:
        function: the user's.
        acc_type: of the accumulators.
    """

    def __init__(self, function: Any, acc_type: TypeLike) -> None:
        self.function = function
        self.acc_type = acc_type

    def open(self, ctx: Any) -> None:
        """Opens the user's function."""
        self.codec = codec(*resolve_type(self.acc_type, "an accumulator"))

    @abstractmethod
    def close(self) -> None:
        """Closes it."""

    @abstractmethod
    def add(self, row: Any, accumulator: Any) -> Any:
        """The accumulator with a row in it."""

    @abstractmethod
    def merge(self, a: Any, b: Any) -> Any:
        """The accumulator of both."""

    @abstractmethod
    def result(self, accumulator: Any) -> Any:
        """What the accumulator stands for."""

    def of(self, rows: Iterable[Any]) -> Any:
        """The accumulator of some rows."""
        accumulator = None
        for row in rows:
            accumulator = self._as_read(self.add(row, accumulator))
        return accumulator

    def _as_read(self, accumulator: Any) -> Any:
        """An accumulator as it would be read if it had been stored."""
        try:
            return self.codec.as_read(accumulator)
        except Misfit as error:
            raise StateTypeError(f"the accumulator of a window: {error}") from None


class ReduceFold(Fold):
    """Reduces rows to a row.

    Args:
        function_spec: how the user's function is called.
        row_type: of the rows.
        shape: of which class they are given; ``None`` for Rows, which are what is stored.
    """

    def __init__(
        self, function_spec: FunctionSpec, row_type: T.StructType, shape: Shape | None
    ) -> None:
        super().__init__(function_spec.function, row_type)
        self._row_type = row_type
        self._shape = shape
        self._function_spec = function_spec

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self._function_spec.open(ctx)
        self._given = as_given(self._row_type, self._shape)
        self._reduce = reduction(self._function_spec, self._row_type, self._given)

    def close(self) -> None:
        self._function_spec.close()

    def add(self, row: Any, accumulator: Any) -> Any:
        return row if accumulator is None else self.merge(accumulator, row)

    def merge(self, a: Any, b: Any) -> Any:
        return self._reduce(a, b)

    def result(self, accumulator: Any) -> Any:
        return accumulator if self._given is None else self._given(accumulator)


class AggregateFold(Fold):
    """Aggregates rows."""

    def __init__(self, function: AggregateFunction[Any, Any, Any], acc_type: TypeLike) -> None:
        super().__init__(function, acc_type)

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        if hasattr(self.function, "open"):
            self.function.open(ctx)

    def close(self) -> None:
        if hasattr(self.function, "close"):
            self.function.close()

    def add(self, row: Any, accumulator: Any) -> Any:
        function = self.function
        if accumulator is None:
            accumulator = self._as_read(function.create_accumulator())
        return function.add(row, accumulator)

    def merge(self, a: Any, b: Any) -> Any:
        return self.function.merge(a, b)

    def result(self, accumulator: Any) -> Any:
        return self.function.get_result(accumulator)


class Contents(ABC):
    """What the windows of a key hold."""

    #: What a window holds, as the checkpoint records it.
    kind: str
    #: The name of the state that has it.
    name: str
    #: Adds rows to an accumulator; ``None`` where the rows are kept.
    fold: Fold | None = None

    @abstractmethod
    def open(self, ctx: KeyedStateStore) -> None:
        """Gets the states."""

    @abstractmethod
    def add(self, window: WindowKey, row: Any, time: int | None) -> bool:
        """Adds a row with its event time; returns whether this can be the window's first row."""

    def contains(self, window: WindowKey) -> bool:
        """Whether there is such a window; others than merged ones need not be told apart."""
        return True

    @abstractmethod
    def clear(self, window: WindowKey) -> None:
        """Empties a window."""

    def remove(self, window: WindowKey) -> None:
        """Removes a window with what it holds."""
        self.clear(window)


class FoldedContents(Contents):
    """An accumulator for each window."""

    kind = "an accumulator each"
    name = CONTENTS
    fold: Fold
    state: WorkerWindowMapState

    def __init__(self, fold: Fold) -> None:
        self.fold = fold

    def open(self, ctx: KeyedStateStore) -> None:
        descriptor = WindowMapDescriptor(self.name, ("end", "start"), self.fold.acc_type)
        state: Any = ctx.get_sorted_map_state(descriptor)
        self.state = state

    def add(self, window: WindowKey, row: Any, time: int | None) -> bool:
        return self.state.fold(window, self.fold.add, row)

    def accumulator(self, window: WindowKey) -> Any:
        """What a window holds; ``None`` if that is nothing."""
        return self.state.get(window)

    def clear(self, window: WindowKey) -> None:
        self.state.remove(window)


class ListedContents(Contents):
    """The rows of each window: an entry for each, numbered as they came.

    Args:
        row_type: of the rows.
        shape: of which class they are given; ``None`` for Rows, which are what is stored.
    """

    kind = "its rows"
    name = ELEMENTS

    def __init__(self, row_type: T.StructType, shape: Shape | None) -> None:
        self._row_type = row_type
        self._shape = shape
        fields = [T.StructField("row", row_type), T.StructField("time", T.LongType())]
        self._element_type = T.StructType(fields)

    def open(self, ctx: KeyedStateStore) -> None:
        names = ("end", "start", "number")
        self._rows = ctx.get_sorted_map_state(
            WindowMapDescriptor(ELEMENTS, names, self._element_type, own_values=True)
        )
        self._next = ctx.get_state(ValueStateDescriptor("window-next-number", "long", default=0))
        self._as_row = codec(self._row_type).as_read
        self._as_given = codec(self._row_type, self._shape).as_read

    def add(self, window: WindowKey, row: Any, time: int | None) -> bool:
        number = self._next.value() or 0
        self._next.update(number + 1)
        if self._shape is not None:
            row = self._as_row(row)
        self._rows.put((*window, number), (row, time))
        return True

    def _range(self, window: WindowKey) -> Range:
        return range_of(window)

    def elements(self, window: WindowKey) -> list[tuple[int, TimestampedValue]]:
        """The rows of a window as they came, each with its number."""
        found = self._rows.sub_iterator(*self._range(window))
        if self._shape is None:
            return [(key[2], TimestampedValue(row, time)) for key, (row, time) in found]
        return [(key[2], TimestampedValue(self._as_given(row), time)) for key, (row, time) in found]

    def evict(self, window: WindowKey, number: int) -> None:
        """Removes one row."""
        (end, start, _), _ = self._range(window)
        self._rows.remove((end, start, number))

    def clear(self, window: WindowKey) -> None:
        self._rows.remove_range(*self._range(window))
        if self._rows.is_empty():
            self._next.clear()

    def _move_rows(self, rows: Range, target: WindowKey) -> None:
        """Has the rows of a range be those of a window."""
        for key, element in self._rows.sub_iterator(*rows):
            self._rows.put((*target, key[2]), tuple(element))
            self._rows.remove(key)


def range_of(window: WindowKey) -> Range:
    """The first key of a window's rows, and the first one after them."""
    end, start = window
    return (end, start, 0), (end, start, LAST_TIME)
