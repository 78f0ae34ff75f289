"""Windows, as a function of rows and timers.

Timers belong to a key and a window. Each window has one of its own: at its end, and then, if it is
kept for late rows, when that is over by the rules at that time. So a window goes on under other
rules after a restart, from its next row or timer on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from pyspark.sql import types as T

from keystate._spec.protocol import EVENT_TIME, PROCESSING_TIME
from keystate._types.codec import Shape, codec
from keystate.functions import KeyedProcessFunction, OutputTag, RuntimeContext
from keystate.windows._assigners import (
    MergingWindowAssigner,
    WindowAssigner,
    fires_at_end,
    is_fixed,
    is_session,
)
from keystate.windows._calls import WindowCalls, opens_states
from keystate.windows._contents import Contents, Fold, FoldedContents, ListedContents
from keystate.windows._contexts import WindowCallContext
from keystate.windows._evictors import Evictor, TimestampedValue
from keystate.windows._merging import MergingContents, MergingWindowSet
from keystate.windows._states import WindowStates
from keystate.windows._triggers import Trigger, TriggerResult
from keystate.windows._window import LAST_TIME, Window, WindowKey, key_of, window_of


@dataclass(frozen=True)
class DeclaredRows:
    """The rows that windows are of.

    Attributes:
        type: their type.
        shape: of which class they are; ``None`` for Rows.
        time_column: the index of the column that has the event time; ``None`` if there is none.
        late_output: where rows go that are too late for all of their windows.
    """

    type: T.StructType
    shape: Shape | None
    time_column: int | None
    late_output: OutputTag | None


class WindowsFunction(KeyedProcessFunction):
    """Windows of any assigner, trigger and evictor.

    Args:
        assigner: says which windows a row is in.
        trigger: says when windows fire.
        evictor: takes rows out of a window that fires.
        lateness: how long, in ms, a window is kept for late rows.
        contents: what windows hold.
        calls: calls the user's function.
        fold: makes one result of a window's rows; ``None`` if the function takes all of them.
        rows: the rows.
    """

    def __init__(
        self,
        assigner: WindowAssigner,
        trigger: Trigger,
        evictor: Evictor | None,
        lateness: int,
        contents: Contents,
        calls: WindowCalls,
        fold: Fold | None,
        rows: DeclaredRows,
    ) -> None:
        self.assigner = assigner
        self.evictor = evictor
        self.contents = contents
        self.calls = calls
        self.fold = fold
        self.time_column = rows.time_column
        self.late_output = rows.late_output
        self.by_event_time = assigner.is_event_time()
        self.lateness = lateness if self.by_event_time else 0
        #: Whether a window's own timer at its end is all that the trigger wants before that.
        self.fires_at_end = fires_at_end(trigger, assigner)
        self._trigger = trigger
        self._rows = rows
        self._domain = EVENT_TIME if self.by_event_time else PROCESSING_TIME
        self._merges = isinstance(assigner, MergingWindowAssigner)

    @property
    def windows(self) -> str:
        """What the checkpoint records of them."""
        clock = "by event time" if self.by_event_time else "by processing time"
        return f"{clock}, {'merged' if self._merges else 'not merged'}, {self.contents.kind}"

    @property
    def grouped_by(self) -> str | None:
        """By which windows a message's rows can be grouped at once: "windows", or "sessions".

        They can where a row is only added to what its windows hold, and these fire at their end:
        with Keystate's tumbling and sliding windows and its sessions of one gap, their default
        trigger, no evictor, and a function without states. Rows that are kept are not merged and
        have no lateness.
        """
        folds = [] if self.fold is None else [self.fold.function]
        has_states = any(map(opens_states, (self.calls.function, *folds)))
        if not self.fires_at_end or self.evictor is not None or has_states:
            return None
        assigner, is_folded = self.assigner, self.contents.fold is not None
        if is_fixed(assigner) and (is_folded or self.lateness == 0):
            return "windows"
        return "sessions" if is_folded and is_session(assigner) and assigner.gap else None

    def open(self, runtime_context: RuntimeContext) -> None:
        at = self._at = WindowCallContext()
        if self.fold is not None:
            self.fold.open(runtime_context)
        self.calls.open(runtime_context, at, self._merges)
        self.contents.open(runtime_context)
        at.trigger_states = WindowStates(runtime_context, at, "trigger")
        self._trigger.open(at.trigger_states)
        self._merging: MergingWindowSet | None = None
        if isinstance(self.contents, MergingContents):
            assert isinstance(self.assigner, MergingWindowAssigner)
            self._merging = MergingWindowSet(self.assigner, self.contents)

    def close(self) -> None:
        self.calls.close()
        if self.fold is not None:
            self.fold.close()

    @cached_property
    def row_copy(self) -> Callable[[Any], Any] | None:
        """Copies a row for a function that may change it, where others see it too."""
        rows = codec(self._rows.type, self._rows.shape)
        return rows.copy if rows.mutable else None

    def process_element(self, row: Any, ctx: Any) -> list[Any] | None:
        at = self._at
        at.row = ctx
        time = self._time_of(ctx)
        results: list[Any] = []
        late = True
        if self._merging is not None:
            self._remove_late(self._merging.contents)
        for each in self.assigner.assign_windows(row, time, at):
            window = key_of(each)
            if self._merging is not None:
                window = self._merging.add(window, self._on_merge)
                each = window_of(window)
            if not self._is_late(each):
                late = False
                self._add(window, each, row, time, results)
            elif self._merging is not None:
                self.contents.remove(window)
        if late and self.by_event_time and time + self.lateness <= ctx.late_watermark:
            if self.late_output is not None:
                return [*results, (self.late_output, row)]
            self.calls.dropped.inc()
        return results or None

    def _remove_late(self, contents: MergingContents) -> None:
        """Removes windows that are there only because lateness was longer before a restart."""
        while (key := next(iter(contents.windows()), None)) is not None:
            window = window_of(key)
            if not self._is_late(window):
                return
            self._remove(key, window)

    def _add(self, key: WindowKey, window: Window, row: Any, time: int, results: list[Any]) -> None:
        at = self._at
        own = row if self.row_copy is None else self.row_copy(row)
        if self.contents.add(key, own, at.row.event_time):
            self._set_own_timer(key, window)
        at.window = key
        if not self.fires_at_end or self._is_past(window):
            self._act(self._trigger.on_element(row, time, window, at), key, results)

    def _set_own_timer(self, key: WindowKey, window: Window) -> None:
        """Sets a window's own timer; there is none at the end of all time."""
        past = self._is_past(window)
        time = self._cleanup_time(window) if past else window.max_timestamp()
        if time != LAST_TIME:
            self._at.set_timer(self._domain, time, key, True)

    def on_timer(self, timestamp: int, ctx: Any) -> list[Any] | None:
        domain, time, end, start = ctx.timer
        at, key = self._at, (end, start)
        at.row, at.window = ctx, key
        if not self.contents.contains(key):
            return None
        window = window_of(key)
        results: list[Any] = []
        cleanup, is_own = self._cleanup_time(window), domain == self._domain
        if is_own and time > cleanup:  # lateness was longer before a restart
            self._remove(key, window)
        elif is_own or not self._is_late(window):
            trigger = self._trigger
            on_time = trigger.on_event_time if domain == EVENT_TIME else trigger.on_processing_time
            self._act(on_time(time, window, at), key, results)
            if is_own and time == cleanup:
                self._remove(key, window)
            elif is_own and window.max_timestamp() <= time and cleanup != LAST_TIME:
                at.set_timer(domain, cleanup, key, True)
        return results or None

    def _act(self, result: TriggerResult, key: WindowKey, results: list[Any]) -> None:
        if result is TriggerResult.CONTINUE:
            return
        if result.is_fire():
            gone: list[int] = []
            fire = partial(self._emit, key, results, gone)
            attempt = self._at.row.attempt
            if attempt is None:
                fire()
            else:
                attempt(fire, results, (self._domain, key[0] - 1))
            if gone:
                assert isinstance(self.contents, ListedContents)
                for number in gone:
                    self.contents.evict(key, number)
        if result.is_purge():
            self.contents.clear(key)

    def _emit(self, key: WindowKey, results: list[Any], gone: list[int]) -> None:
        """Has the function make results of a window, and notes which rows the evictor took out."""
        contents = self.contents
        if isinstance(contents, FoldedContents):
            accumulator = contents.accumulator(key)
            if accumulator is not None:
                self._call_with(accumulator, results)
            return
        assert isinstance(contents, ListedContents)
        numbered = contents.elements(key)
        if not numbered:
            return
        elements = [element for _, element in numbered]
        evictor, window = self.evictor, window_of(key)
        if evictor is None:
            self._call_with_rows(elements, results)
            return
        evictor.evict_before(elements, len(elements), window, self._at)
        gone[:] = _missing(numbered, elements)
        try:
            self._call_with_rows(elements, results)
        finally:  # where the function fails, it is as if it had emitted nothing
            evictor.evict_after(elements, len(elements), window, self._at)
            gone[:] = _missing(numbered, elements)

    def _call_with_rows(self, elements: list[TimestampedValue], results: list[Any]) -> None:
        rows = [element.value for element in elements]
        if self.fold is None:
            self.calls.call(rows, results)
        elif rows:
            self._call_with(self.fold.of(rows), results)

    def _call_with(self, accumulator: Any, results: list[Any]) -> None:
        """Has the function make results of the window's one result; ``None`` is no result."""
        assert self.fold is not None
        result = self.fold.result(accumulator)
        if result is not None:
            self.calls.call([result], results)

    # -- windows whose rows are grouped: these have fired ----------------------------------------

    def fire(self, window: WindowKey, rows: list[Any], ctx: Any, results: list[Any]) -> None:
        """Has the function make results of a window's rows."""
        self._at.row, self._at.window = ctx, window
        self.calls.call(rows, results)

    def fire_with(self, window: WindowKey, held: Any, ctx: Any, results: list[Any]) -> None:
        """Has the function make results of a window's accumulator."""
        self._at.row, self._at.window = ctx, window
        self._call_with(held, results)

    # --------------------------------------------------------------------------------------------

    def _remove(self, key: WindowKey, window: Window) -> None:
        """Removes a window with all that it has."""
        self._at.window = key
        self.contents.remove(key)
        self._trigger.clear(window, self._at)
        self.calls.clear()

    def _on_merge(self, into: WindowKey, merged: list[WindowKey]) -> None:
        at, window = self._at, window_of(into)
        at.window, at.merged = into, merged
        self._set_own_timer(into, window)
        self._trigger.on_merge(window, at)
        for each in merged:
            if each != into:
                at.window, window = each, window_of(each)
                self._trigger.clear(window, at)
                for time in {window.max_timestamp(), self._cleanup_time(window)}:
                    at.set_timer(self._domain, time, each, False)

    def _time_of(self, ctx: Any) -> int:
        """The row's event time, or if it needs none and has none, that of the micro-batch."""
        time: int | None = ctx.event_time
        if time is not None:
            return time
        if self.by_event_time:
            raise ValueError(
                "the row has no event time, so it is in no window: filter such rows out before "
                "window()"
            )
        return int(ctx.current_processing_time())

    def _is_past(self, window: Window) -> bool:
        """Whether the end of a window has passed, as rows see it."""
        if not self.by_event_time:
            return False
        watermark: int = self._at.row.late_watermark
        return window.max_timestamp() <= watermark

    def _cleanup_time(self, window: Window) -> int:
        """When a window is removed, in ms."""
        return min(window.max_timestamp() + self.lateness, LAST_TIME)

    def _is_late(self, window: Window) -> bool:
        if not self.by_event_time:
            return False
        watermark: int = self._at.row.late_watermark
        return self._cleanup_time(window) <= watermark


def _missing(
    numbered: list[tuple[int, TimestampedValue]], left: list[TimestampedValue]
) -> list[int]:
    """The numbers of the rows that are not left."""
    kept = {id(element) for element in left}
    return [number for number, element in numbered if id(element) not in kept]
