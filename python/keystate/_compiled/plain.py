"""The code that runs for every row, in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

Call = Callable[..., Any]

_INFINITY = float("inf")

#: Takes a result as it is now: gives what does not change with it.
Take = Callable[[Any], Any]


class Cursor:
    """The slot of the current key, and the current row; ``None`` where there is none."""

    def __init__(self) -> None:
        self.slot: int | None = None
        self.row: Any = None


class Cells:
    """The first base of a state that holds a value a key.

    Compiled, it has the usual case of `clear`, `_get` and `_set`, for which a state has `_cells`,
    `_dirty`, `_cursor` and `_plain`. For all others it calls the state's own methods.
    """


class ValueCells(Cells):
    """Cells with `value` and `update`, for a state that is given values.

    It looks at `_default`, `_shared_default` and `_tuple_as_read` too.
    """


class MapCells:
    """The first base of a state that holds a map a key: the usual case of `get`, `contains`, `put`.

    It looks at `_cells`, `_dirty`, `_cursor`, `_plain`, `_key_class`, and at `_whole`, the class of
    cells that are dictionaries of the whole map, with the keys that changed in `changed`.
    """


class Field(NamedTuple):
    """Says which values of a row's field need no conversion or copy.

    Attributes:
        cls: values of exactly this class are read as they are written; ``None``: no value is. A
            time must also have no zone, and not be the second of two equal times (``fold``).
        frozen: values of exactly this class never change; ``None``: the class does not show it.
        nullable: whether ``None`` is allowed.
        lowest: the lowest int.
        highest: the highest int.
        single: whether floats must fit into 32 bits.
    """

    cls: type | None
    frozen: type | None
    nullable: bool
    lowest: int = 0
    highest: int = 0
    single: bool = False


def row_reader(
    cls: type, as_read: Callable[[Any], Any], fields: tuple[Field, ...]
) -> Callable[[Any], Any]:
    """Returns a function that makes a row from a tuple, fast if all values are as the fields say.

    Args:
        cls: the class of the rows, derived from tuple.
        as_read: makes a row from any tuple, or raises an error.
        fields: the fields of the rows.
    """
    return as_read


def row_taker(
    cls: type, slow: Callable[[Any], Any], fields: tuple[Field, ...]
) -> Callable[[Any], Any]:
    """Returns a function that takes a result as it is now: itself if it never changes, or a copy.

    A result that never changes is a tuple, or a row of this class, whose values have the fields'
    frozen classes; or the bare value of the only field.

    Args:
        cls: the class of the rows, derived from tuple.
        slow: makes a copy of any other result, which does not change with it.
        fields: the fields of the rows.
    """
    width, only = len(fields), fields[0] if len(fields) == 1 else None

    def take(result: Any) -> Any:
        if type(result) in (tuple, cls):
            row: Any = result
            if len(row) == width and all(map(_stays, fields, row)):
                return row
        elif only is not None and _stays(only, result):
            return result
        return slow(result)

    return take


def _stays(field: Field, value: Any) -> bool:
    if value is None:
        return field.nullable
    if type(value) is not field.frozen:
        return False
    if isinstance(value, int) and field.frozen is int:
        return field.lowest <= value <= field.highest
    if field.single and isinstance(value, float):
        return abs(ctypes.c_float(value).value) != _INFINITY or abs(value) == _INFINITY
    return not isinstance(value, str) or value.isascii() or is_text(value)


def is_text(value: str) -> bool:
    """Whether it is Unicode: half of a surrogate pair is not."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def make_rows(cls: type, columns: list[list[Any]]) -> list[Any]:
    """A row for each index of these columns, of a class derived from tuple."""
    return list(map(partial(tuple.__new__, cls), zip(*columns)))


def call_with_context(
    call: Call,
    context: Any,
    slots: Iterable[int],
    rows: Iterable[Any],
    take: Take,
    results: list[Any],
) -> None:
    """Calls a function with each row and the context, which has its slot and the row meanwhile.

    The results are those that it yields, those of a list that it returns, or the one; each as it is
    at that moment.
    """
    # The row after its slot: it may be made then, and this fail.
    following = iter(rows).__next__
    for context.slot in slots:
        context.row = row = following()
        collect(call(row, context), take, results)


def call_with_row(
    call: Call,
    context: Any,
    slots: Iterable[int],
    rows: Iterable[Any],
    take: Take,
    results: list[Any],
) -> None:
    """Calls a function of the row alone for each row."""
    following = iter(rows).__next__
    for context.slot in slots:
        context.row = row = following()
        collect(call(row), take, results)


class Marks:
    """The slots of some rows. Before each it notes how things are, so that the row can be undone.

    Args:
        slots: those of the rows.
        cells: of states whose values never change in place, the cells by slot, and which changed.
        results: of all rows so far.
        journal: what is noted of the current row besides; it is emptied for the next one.

    Attributes:
        count: how many rows have begun.
    """

    def __init__(
        self,
        slots: Iterable[int],
        cells: Iterable[tuple[list[Any], bytearray]],
        results: list[Any],
        journal: list[Any],
    ) -> None:
        self.count = 0
        self._slots = iter(slots)
        self._cells = tuple(cells)
        self._results = results
        self._journal = journal
        self._slot = self._length = 0
        self._saved: Sequence[tuple[Any, int]] = ()

    def __iter__(self) -> Iterator[int]:
        """The slots that are left. Each is marked; what `mark` does, without a call for each."""
        if len(self._cells) != 1:
            for slot in self._slots:
                self.mark(slot)
                yield slot
            return
        ((cells, dirty),) = self._cells
        results, journal = self._results, self._journal
        for slot in self._slots:
            self.count += 1
            self._slot = slot
            self._length = len(results)
            if journal:
                journal.clear()
            self._saved = ((cells[slot], dirty[slot]),)
            yield slot

    def mark(self, slot: int) -> None:
        """Notes how things are before the row or timer of a slot."""
        self.count += 1
        self._slot = slot
        self._length = len(self._results)
        if self._journal:
            self._journal.clear()
        self._saved = [(cells[slot], dirty[slot]) for cells, dirty in self._cells]

    def undo(self) -> None:
        """Puts back values and results; the journal is for others."""
        del self._results[self._length :]
        for (cells, dirty), (cell, was) in zip(self._cells, self._saved):
            cells[self._slot] = cell
            dirty[self._slot] = was


def collect(result: Any, take: Take, results: list[Any]) -> None:
    """Adds what a call returned to the results: many of a list or an iterator, else one or none."""
    if result is None:
        return
    # An iterator is asked of its class: a dict whose keys are attributes too may say yes to all.
    if type(result) is list or hasattr(type(result), "__next__"):
        for each in result:
            try:
                now = take(each)
            except Exception as e:
                note_yield(e, result)
                raise
            results.append(now)
    else:
        results.append(take(result))


def note_yield(error: BaseException, results: Any) -> None:
    """Notes on the error of a result which lines of a generator yielded it: `yielded_at`.

    A traceback does not have them: the generator waits there for the next result to be asked for.
    """
    lines = []
    while (frame := getattr(results, "gi_frame", None)) is not None:
        lines.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        results = results.gi_yieldfrom
    error.yielded_at = lines  # type: ignore[attr-defined]
