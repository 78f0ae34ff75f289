"""The loops over a message's rows, one for each style of function: what runs for every row.

Each takes a result when it comes, as it is at that moment: the function may change it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from keystate._compiled import call_with_context, call_with_row, collect
from keystate._compiled.plain import Call, Take
from keystate._worker.calls.plan import Style
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
    times = context.event_times
    for context.slot, row, context.event_time in zip(slots, rows, times):
        context.row = row
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
    append = results.append
    for context.slot, row in zip(slots, rows):
        context.row = row
        append(take(call(row)))


def _sink(
    call: Call,
    context: RowContext,
    slots: Iterable[int],
    rows: Iterable[Any],
    take: Take,
    results: list[Any],
) -> None:
    for context.slot, row in zip(slots, rows):
        context.row = row
        call(row, context)


def _filter(
    call: Call,
    context: RowContext,
    slots: Iterable[int],
    rows: Iterable[Any],
    take: Take,
    results: list[Any],
) -> None:
    append = results.append
    for context.slot, row in zip(slots, rows):
        context.row = row
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
