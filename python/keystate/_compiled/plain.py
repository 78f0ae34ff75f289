"""What is done for every row, in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import GeneratorType
from typing import Any, NamedTuple

Call = Callable[..., Any]

#: What is many results.
MANY = (list, GeneratorType)


class Cursor:
    """The slot of the key at hand, and the row; ``None`` where there is none."""

    def __init__(self) -> None:
        self.slot: int | None = None
        self.row: Any = None


class Cells:
    """The first base of a state that holds a value a key.

    Compiled, it has the usual case of `clear`, `_get` and `_set`, for which a state has `_cells`,
    `_dirty`, `_cursor` and `_plain`. For all others it calls the state's own methods.
    """


class ValueCells(Cells):
    """Likewise, with `value` and `update`, for a state that is given values.

    It looks at `_default`, `_shared_default` and `_tuple_as_read` too.
    """


class MapCells:
    """The first base of a state that holds a map a key: the usual case of `get`, `contains`, `put`.

    It looks at `_cells`, `_dirty`, `_cursor`, `_plain`, `_key_class`, and at `_whole`, the class of
    cells that are dictionaries of the whole map, with the keys that changed in `changed`.
    """


class Field(NamedTuple):
    """Which values of a row's field are read as they are written.

    Attributes:
        cls: of just this class; ``None``: no value is.
        nullable: whether ``None`` is one.
        lowest: of ints.
        highest: of ints.
    """

    cls: type | None
    nullable: bool
    lowest: int = 0
    highest: int = 0


def row_reader(
    cls: type, as_read: Callable[[Any], Any], fields: tuple[Field, ...]
) -> Callable[[Any], Any]:
    """What makes a row of a tuple: of this class if all values are as the fields say.

    Args:
        cls: the rows', derived from tuple.
        as_read: does the same for every tuple, or raises an error.
        fields: of the rows.
    """
    return as_read


def make_rows(cls: type, columns: list[list[Any]]) -> list[Any]:
    """A row for each index of these columns, of a class derived from tuple."""
    return list(map(partial(tuple.__new__, cls), zip(*columns)))


def call_with_context(
    call: Call, context: Any, slots: Iterable[int], rows: Iterable[Any], results: list[Any]
) -> None:
    """Calls a function with each row and the context, which has its slot and the row meanwhile.

    The results are those that it yields, those of a list that it returns, or the one.
    """
    extend = results.extend
    for context.slot, row in zip(slots, rows):
        context.row = row
        result = call(row, context)
        if result is not None:
            if type(result) in MANY:
                extend(result)
            else:
                collect(result, results)


def call_with_row(
    call: Call, context: Any, slots: Iterable[int], rows: Iterable[Any], results: list[Any]
) -> None:
    """The same for a function of the row alone."""
    extend = results.extend
    for context.slot, row in zip(slots, rows):
        context.row = row
        result = call(row)
        if result is not None:
            if type(result) in MANY:
                extend(result)
            else:
                collect(result, results)


def collect(result: Any, results: list[Any]) -> None:
    """Adds what a call returned that is neither a list nor a generator."""
    # Asked of its class: a dict whose keys are attributes too may say yes to everything.
    if hasattr(type(result), "__next__"):
        results.extend(result)
    else:
        results.append(result)
