"""Event-time windows in plain Python: what triggers and lateness do, over restarts with others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

#: Total, start and last time of a window that fired.
Fired = tuple[int, int, int]


class Rules(NamedTuple):
    """What may change at a restart.

    Attributes:
        lateness: in ms.
        trigger: ``event``, ``count`` or ``continuous``.
        limit: how many rows, or the interval in ms.
        purging: whether a window that fires is emptied.
    """

    lateness: int
    trigger: str = "event"
    limit: int = 0
    purging: bool = False


@dataclass
class Open:
    """An open window."""

    start: int
    end: int
    total: int | None = None
    count: int = 0
    next: int | None = None
    past: bool = False

    @property
    def last(self) -> int:
        return self.end - 1


class Model:
    """The windows of one key.

    Args:
        size: of a window; the gap of sessions.
        slide: how far apart windows begin; 0 for sessions.
    """

    def __init__(self, size: int, slide: int, rules: Rules) -> None:
        self._size, self._slide, self._rules = size, slide, rules
        self._open: list[Open] = []
        self._watermark = 0
        self._fired: list[Fired] = []
        #: Value and time of the rows that were too late.
        self.late: list[tuple[int, int]] = []

    def row(self, time: int, value: int) -> list[Fired]:
        """Takes in a row, in a micro-batch of its own. What is due then fires after it."""
        self._is_late = time + self._rules.lateness <= self._watermark
        self._take(time, value)
        if self._is_late:
            self.late.append((value, time))
        self._pass(self._watermark)
        return self._taken()

    def _take(self, time: int, value: int) -> None:
        if self._slide:
            starts = range(time // self._slide * self._slide, time - self._size, -self._slide)
            for start in starts:
                window = Open(start, start + self._size)
                same = [each for each in self._open if each.start == start]
                self._add(same[0] if same else window, time, value)
        else:
            window = Open(time, time + self._size)
            met = [e for e in self._open if e.start <= window.end and e.end >= window.start]
            if not (len(met) == 1 and met[0].start <= time and met[0].end >= window.end):
                window = self._merged(window, met)
            else:
                window = met[0]
            self._add(window, time, value)

    def _merged(self, window: Open, met: list[Open]) -> Open:
        totals = [each.total for each in met if each.total is not None]
        # A trigger merges what it has itself; what an earlier one had is lost.
        trigger = self._rules.trigger
        times = [e.next for e in met if e.next is not None and trigger == "continuous"]
        for each in met:
            self._open.remove(each)
        return Open(
            min(each.start for each in (window, *met)),
            max(each.end for each in (window, *met)),
            sum(totals) if totals else None,
            sum(each.count for each in met if trigger == "count"),
            min(times, default=None),
        )

    def _add(self, window: Open, time: int, value: int) -> None:
        rules = self._rules
        if window.last + rules.lateness <= self._watermark:
            return
        self._is_late = False
        window.past = window.last <= self._watermark
        if window not in self._open:
            self._open.append(window)
        window.total = (window.total or 0) + value
        if rules.trigger == "count":
            window.count += 1
            if window.count >= rules.limit:
                window.count = 0
                self._fire(window)
        elif window.past:
            self._fire(window)
        elif rules.trigger == "continuous" and window.next is None:
            window.next = self._next(time, window)

    def watermark(self, watermark: int) -> list[Fired]:
        """Lets the watermark pass."""
        self._pass(watermark)
        self._watermark = watermark
        return self._taken()

    def _pass(self, watermark: int) -> None:
        while due := [(*self._due(each), each) for each in self._open]:
            time, what, window = min(due, key=lambda each: (each[0], each[2].end))
            if time > watermark:
                break
            if what == "removed":
                self._open.remove(window)
            elif what == "end":
                window.past, window.next = True, None
                if self._rules.trigger in ("event", "continuous"):
                    self._fire(window)
            elif self._rules.trigger != "continuous":
                window.next = None
            else:
                window.next = self._next(time, window)
                self._fire(window)

    def _next(self, time: int, window: Open) -> int:
        limit = self._rules.limit
        return min(time - time % limit + limit, window.last)

    def _due(self, window: Open) -> tuple[int, str]:
        """What happens to a window next, and when."""
        if window.past:
            return window.last + self._rules.lateness, "removed"
        if window.next is not None and window.next < window.last:
            return window.next, "next"
        return window.last, "end"

    def restart(self, rules: Rules) -> None:
        """Goes on by other rules."""
        self._rules = rules
        gone = [each for each in self._open if each.last + rules.lateness <= self._watermark]
        for each in gone:
            self._open.remove(each)

    def _fire(self, window: Open) -> None:
        if window.total is not None:
            self._fired.append((window.total, window.start, window.last))
        if self._rules.purging:
            window.total = None

    def _taken(self) -> list[Fired]:
        fired, self._fired = self._fired, []
        return fired
