"""The loops over a message's rows, one for each style of function: what runs for every row.

Each takes a result when it comes, as it is at that moment: the function may change it afterwards.
A row is asked for after its slot, for it may be made then, by the user's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from keystate._compiled import call_with_context, call_with_row, collect
from keystate._compiled.plain import Call, Take
from keystate._worker.calls.function_spec import Style
from keystate._worker.contexts.row_context import RowContext

Loop = Callable[[Call, Any, Iterable[int], Iterable[Any], Take, list[Any]], None]


def _windows(
    call: Call,
    context: Any,
    slots: Iterable[int],
    rows: Iterable[Any],
    take: Take,
    results: list[Any],
) -> None:
    following, times = iter(rows).__next__, context.event_times
    for context.slot, context.event_time in zip(slots, times):
        context.row = row = following()
        result = call(row, context)
        if result is not None:
            collect(result, take, results)


def _map(
    call: Call,
    context: RowContext,
    slots: Iterable[int],
    rows: Iterable[Any],
    take: Take,
    results: list[Any],
) -> None:
    append, following = results.append, iter(rows).__next__
    for context.slot in slots:
        context.row = row = following()
        append(take(call(row)))


def _sink(
    call: Call,
    context: RowContext,
    slots: Iterable[int],
    rows: Iterable[Any],
    take: Take,
    results: list[Any],
) -> None:
    following = iter(rows).__next__
    for context.slot in slots:
        context.row = row = following()
        call(row, context)


def _filter(
    call: Call,
    context: RowContext,
    slots: Iterable[int],
    rows: Iterable[Any],
    take: Take,
    results: list[Any],
) -> None:
    append, following = results.append, iter(rows).__next__
    for context.slot in slots:
        context.row = row = following()
        if call(row):
            append(take(row))


#: Calls a function for each row, with the slot of its key and the row in the context: states that
#: live by event time, and errors, look at it there.
LOOPS: dict[Style, Loop] = {
    Style.PROCESS: call_with_context,
    Style.WINDOWS: _windows,
    Style.FLAT_MAP: call_with_row,
    Style.MAP: _map,
    Style.FILTER: _filter,
    Style.SINK: _sink,
}
