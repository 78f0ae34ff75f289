"""Windows of any assigner, trigger and evictor."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import types as T

from keystate._types.codec import Shape
from keystate.functions import OutputTag, RuntimeContext
from keystate.windows._assigners import (
    MergingWindowAssigner,
    WindowAssigner,
    fires_at_end,
    is_fixed,
    is_session,
)
from keystate.windows._by_columns import (
    FoldedSessionWindows,
    FoldedWindows,
    ListedWindows,
    WindowsByColumns,
)
from keystate.windows._contents import Contents, Fold, FoldedContents, ListedContents
from keystate.windows._evictors import Evictor, TimestampedValue
from keystate.windows._functions import ProcessWindowFunction
from keystate.windows._merging import MergingContents, MergingWindowSet
from keystate.windows._open_rows import open_rows
from keystate.windows._states import WindowStates
from keystate.windows._timers import EVENT_TIME, FOR_OPERATOR, FOR_TRIGGER, WindowTimers
from keystate.windows._triggers import Trigger, TriggerResult
from keystate.windows._window import LAST_TIME, Window, WindowKey, key_of, window_of
from keystate.windows._windows_function import UserFunction, WindowsFunction


class AnyWindowsFunction(WindowsFunction):
    """Windows of any assigner, trigger and evictor.

    Args:
        trigger: says when windows fire.
        evictor: takes rows out of a window that fires.
        lateness: how long, in ms, a window is kept for late rows.
        contents: what windows hold.
    """

    def __init__(
        self,
        assigner: WindowAssigner,
        trigger: Trigger,
        evictor: Evictor | None,
        lateness: int,
        contents: Contents,
        function: UserFunction,
        fold: Fold | None,
        late_output: OutputTag | None,
        time_column: int | None,
        row_type: T.StructType,
        shape: Shape | None,
    ) -> None:
        super().__init__(assigner, function, fold, late_output, time_column, row_type, shape)
        self._trigger = trigger
        self._evictor = evictor
        self._lateness = lateness if self.by_event_time else 0
        self._contents = contents

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        at = self._at
        self._contents.open(runtime_context)
        self._timers = at.timers = WindowTimers(runtime_context, self._merges)
        at.trigger_states = WindowStates(runtime_context, at, "trigger")
        self._trigger.open(at.trigger_states)
        self._merging: MergingWindowSet | None = None
        if isinstance(self._contents, MergingContents):
            assert isinstance(self._assigner, MergingWindowAssigner)
            self._merging = MergingWindowSet(self._assigner, self._contents)
        self._open_rows = open_rows(
            self._assigner,
            self._trigger,
            self._contents,
            self._timers,
            self._domain,
            self.row_copy,
        )

    def by_columns(self) -> WindowsByColumns | None:
        if self._evictor is not None or not fires_at_end(self._trigger, self._assigner):
            return None
        if self._opens_states():
            return None
        contents, assigner, lateness = self._contents, self._assigner, self._lateness
        if isinstance(contents, FoldedContents):
            if is_fixed(assigner):
                return FoldedWindows(assigner, contents.fold, self, lateness)
            if is_session(assigner) and assigner.gap is not None:
                return FoldedSessionWindows(assigner.gap, contents.fold, self, lateness)
        elif is_fixed(assigner) and lateness == 0:
            return ListedWindows(assigner, self)
        return None

    def process_element(self, row: Any, ctx: Any) -> list[Any] | None:
        if self._merging is not None and self._timers.is_empty():
            self._at.row = ctx
            self._find_timers()
        time = self._time_of(ctx)
        may_be_late = self.by_event_time and time <= ctx.late_watermark + 1
        # All windows of a row that is not behind the watermark end after it.
        if self._open_rows is not None and not may_be_late:
            clock = time if self.by_event_time else ctx.current_processing_time()
            if self._open_rows.add(row, clock, ctx):
                return None
        at = self._at
        at.row = ctx
        results: list[Any] = []
        if may_be_late and self._merging is not None:
            self._remove_late(ctx)
        late = True
        for each in self._assigner.assign_windows(row, time, at):
            window = key_of(each)
            if self._merging is not None:
                window = self._merging.add(window, self._is_past, self._on_merge)
                if self._is_late(window_of(window), ctx):
                    self._contents.remove(window)
                    continue
            elif self._is_late(each, ctx):
                continue
            late = False
            self._add(window, row, time, results)
        if late and self.by_event_time and time + self._lateness <= ctx.late_watermark:
            results += self._late(row)
        return results or None

    def _add(self, key: WindowKey, row: Any, time: int, results: list[Any]) -> None:
        at, window, past = self._at, window_of(key), self._is_past(key)
        own = row if self.row_copy is None else self.row_copy(row)
        self._contents.add(key, own, at.row.event_time, past)
        at.window = key
        self._act(self._trigger.on_element(row, time, window, at), key, results)
        self._set_timer(self._cleanup_time(window) if past else window.max_timestamp(), key)

    def _set_timer(self, time: int, key: WindowKey) -> None:
        """Sets the operator's own timer for a window; there is none at the end of all time."""
        if time != LAST_TIME:
            self._timers.set(self._domain, time, key, FOR_OPERATOR, self._at.row)

    def on_timer(self, timestamp: int, ctx: Any) -> list[Any] | None:
        self._at.row = ctx
        results: list[Any] = []
        domain: int = ctx.time_domain().value
        self._pass(domain, max(timestamp, _clock(domain, ctx)), results)
        if domain != self._domain:
            # Of windows that had the other clock before a restart.
            self._find_timers()
            self._pass(self._domain, _clock(self._domain, ctx), results)
        return results or None

    def _pass(self, domain: int, until: int, results: list[Any]) -> None:
        """Lets the timers of the key's windows fire up to a time, those too that these set.

        But one that is set at or before the time of the timer that sets it waits for the next
        micro-batch.
        """
        if domain == self._domain:
            self._find_timers(until + 1)
        ctx, after = self._at.row, None
        while (due := self._timers.pop(domain, until, ctx, after)) is not None:
            time, window, _ = due
            ctx.timer, after = (domain, time), (time, window)
            self._fire(domain, *due, results)
        # Windows by columns have a timer for the first one only.
        self._timers.rearm(domain, ctx)

    def _find_timers(self, end: int = LAST_TIME) -> None:
        """Sets the timers of windows that have none here and end by `end`, or have ended.

        Windows of a FixedWindowsFunction, or by columns, have none. Of windows that are merged all
        are found at once, when none has any: a key has one timer for a time, and it can be deleted
        only if it is known whose it is.
        """
        self._timers.adopt(self._domain, self._at.row)
        if self._merging is not None:
            if not self._timers.is_empty():
                return
            end = LAST_TIME
        for key in self._contents.ending(end):
            self._set_timer(key[0] - 1, key)
        at = self._at
        for key in self._contents.closed():
            window = window_of(key)
            cleanup = self._cleanup_time(window)
            if self._merging is None and self._timers.has(self._domain, key, cleanup):
                continue
            if not self.by_event_time or self._is_late(window, at.row):
                self._remove(key, window)
            else:
                self._set_timer(cleanup, key)

    def _fire(self, domain: int, time: int, key: WindowKey, whose: int, results: list[Any]) -> None:
        at, window = self._at, window_of(key)
        at.window = key
        if not self._contents.contains(key):
            return
        end, cleanup = window.max_timestamp(), self._cleanup_time(window)
        is_own = domain == self._domain
        if not is_own and whose & FOR_OPERATOR:
            # It was set before a restart: the windows had the other clock.
            self._timers.set(self._domain, time, key, FOR_OPERATOR, at.row)
        if is_own and cleanup < time:
            # Lateness was longer before a restart: the window is gone.
            if whose & FOR_OPERATOR:
                self._remove(key, window)
            return
        if not is_own and self._is_late(window, at.row):
            return
        # The operator's timer is from before a restart if it is at neither of these.
        if whose & FOR_TRIGGER or time in (end, cleanup):
            trigger = self._trigger
            on_time = trigger.on_event_time if domain == EVENT_TIME else trigger.on_processing_time
            self._act(on_time(time, window, at), key, results)
        if not is_own or time < end:
            return
        if time == cleanup:
            self._remove(key, window)
        else:
            self._contents.ended(key)
            self._set_timer(cleanup, key)

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
                assert isinstance(self._contents, ListedContents)
                for number in gone:
                    self._contents.evict(key, number)
        if result.is_purge():
            self._contents.clear(key)

    def _emit(self, key: WindowKey, results: list[Any], gone: list[int]) -> None:
        """Has the function make results of a window, and notes which rows the evictor took out."""
        contents = self._contents
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
        evictor, window = self._evictor, window_of(key)
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
        if self._fold is None:
            self._call(rows, results)
        elif rows:
            self._call_with(self._fold.of(rows), results)

    def _remove_late(self, ctx: Any) -> None:
        """Removes windows that are still there only because lateness was longer before."""
        assert self._merging is not None
        first = self._merging.contents.first
        while (key := first()) is not None and self._is_late(window_of(key), ctx):
            self._remove(key, window_of(key))

    def _remove(self, key: WindowKey, window: Window) -> None:
        """Removes a window with all that it has."""
        self._at.window = key
        self._contents.remove(key)
        self._trigger.clear(window, self._at)
        if isinstance(self.function, ProcessWindowFunction):
            self.function.clear(self._context)

    def _on_merge(self, into: WindowKey, merged: list[WindowKey]) -> None:
        at, window = self._at, window_of(into)
        at.window, at.merged = into, merged
        self._trigger.on_merge(window, at)
        for each in merged:
            at.window = each
            self._trigger.clear(window_of(each), at)
            for time in (window_of(each).max_timestamp(), self._cleanup_time(window_of(each))):
                self._timers.delete(self._domain, time, each, FOR_OPERATOR, at.row)

    def _is_past(self, key: WindowKey) -> bool:
        """Whether the end of a window has passed, as rows see it."""
        if not self.by_event_time:
            return False
        watermark: int = self._at.row.late_watermark
        return window_of(key).max_timestamp() <= watermark

    def _cleanup_time(self, window: Window) -> int:
        """When a window is removed, in ms."""
        return min(window.max_timestamp() + self._lateness, LAST_TIME)

    def _is_late(self, window: Window, ctx: Any) -> bool:
        return self.by_event_time and self._cleanup_time(window) <= ctx.late_watermark


def _missing(
    numbered: list[tuple[int, TimestampedValue]], left: list[TimestampedValue]
) -> list[int]:
    """The numbers of the rows that are not left."""
    kept = {id(element) for element in left}
    return [number for number, element in numbered if id(element) not in kept]


def _clock(domain: int, ctx: Any) -> int:
    """The time of the micro-batch by a clock."""
    time: int = ctx.watermark_now() if domain == EVENT_TIME else ctx.current_processing_time()
    return time
