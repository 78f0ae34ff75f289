"""A plain model of windows by event time that add up values, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

#: A key, a value, and an event time in ms.
Row = tuple[str, int, int]
#: A key, the start and the end of its window in ms, the sum and the number of its values.
Result = tuple[str, int, int, int, int]


@dataclass
class WindowSums:
    """Windows of a size and slide, or sessions of a gap, and what they emit.

    Rows are late by the watermark that the micro-batch before ended with. At the end of a
    micro-batch the windows fire that its own watermark has passed, once each.

    Attributes:
        size: of a window, in ms; of sessions the gap.
        slide: from the start of a window to that of the next; ``None`` for sessions.
        lateness: how long a window is kept after its end, in ms.
        delay: how far the watermark is behind the latest event time, in ms.
    """

    size: int
    slide: int | None
    lateness: int = 0
    delay: int = 0
    #: The values of windows, by key, start and end, and which of them are to fire.
    windows: dict[tuple[str, int, int], list[int]] = field(default_factory=dict)
    open: set[tuple[str, int, int]] = field(default_factory=set)
    latest: int | None = None
    late: int = 0
    watermark: int = 0

    def run(self, batches: list[list[Row]]) -> list[tuple[list[Result], int]]:
        """What each micro-batch of a run emits, and how many of its rows are too late.

        After the last one Spark runs another without rows, if the watermark has moved.
        """
        emitted = [self._batch(rows) for rows in batches]
        if self._next_watermark() > self.watermark:
            emitted.append(self._batch([]))
        return emitted

    def _next_watermark(self) -> int:
        return self.watermark if self.latest is None else max(self.latest - self.delay, 0)

    def _batch(self, rows: list[Row]) -> tuple[list[Result], int]:
        self.late, self.watermark = self.watermark, max(self.watermark, self._next_watermark())
        dropped = sum(not self._take(*row) for row in rows)
        self.latest = max([time for _, _, time in rows] + [self.latest or 0])
        fired = sorted(each for each in self.open if each[2] - 1 <= self.watermark)
        results = [(*each, sum(self.windows[each]), len(self.windows[each])) for each in fired]
        self.open -= set(fired)
        for each in list(self.windows):
            if self._is_over(each[2], self.watermark):
                del self.windows[each]
                self.open.discard(each)
        return results, dropped

    def _is_over(self, end: int, watermark: int) -> bool:
        return end - 1 + self.lateness <= watermark

    def _take(self, key: str, value: int, time: int) -> bool:
        if self.slide is None:
            return self._take_in_session(key, value, time)
        taken = False
        for start in self._starts(time):
            window = (key, start, start + self.size)
            if not self._is_over(window[2], self.late):
                self.windows.setdefault(window, []).append(value)
                self.open.add(window)
                taken = True
        return taken

    def _starts(self, time: int) -> Iterator[int]:
        assert self.slide is not None
        start = time - time % self.slide
        while start > time - self.size:
            yield start
            start -= self.slide

    def _take_in_session(self, key: str, value: int, time: int) -> bool:
        start, end = time, time + self.size
        met = [
            each for each in self.windows if each[0] == key and each[1] <= end and each[2] >= start
        ]
        start = min([start, *(each[1] for each in met)])
        end = max([end, *(each[2] for each in met)])
        if self._is_over(end, self.late):
            return False
        values = [value]
        for each in met:
            values += self.windows.pop(each)
            self.open.discard(each)
        self.windows[key, start, end] = values
        self.open.add((key, start, end))
        return True
