"""In which order timers fire: those that the JVM sends, and those that this micro-batch sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from keystate._worker.messages.columns import SlotTimer
from keystate._worker.state.timers import WorkerTimers

#: Before a time and a domain; ``None``: all of them.
Before = tuple[int, int] | None

#: So many timers that were set fire before their results go to the JVM.
_AT_ONCE = 10_000


class TimerTurns:
    """Timers in order of time. One that fires may set another one, which comes in its turn.

    Args:
        timers: those that are set.
        sent: by the JVM, in their order.
        before: those that are set fire up to the last one that is sent, and up to there.
    """

    def __init__(self, timers: WorkerTimers, sent: Iterable[SlotTimer], before: Before) -> None:
        self._timers = timers
        self._sent = list(sent)
        self._before = before

    def __iter__(self) -> Iterator[SlotTimer]:
        for each in self._sent:
            yield from self._set(_order(each))
            yield each
        yield from islice(self._set(self._before), _AT_ONCE)

    def _set(self, before: Before) -> Iterator[SlotTimer]:
        while (timer := self._timers.next_due(before)) is not None:
            yield timer

    def firsts(self) -> list[SlotTimer]:
        """Takes the first one of each key: those that may fire before any of them sets others."""
        due = sorted([*self._sent, *self._set(self._before)], key=lambda t: (*_order(t), t[0]))
        firsts: dict[int, SlotTimer] = {}
        self._sent = [timer for timer in due if firsts.setdefault(timer[0], timer) is not timer]
        return list(firsts.values())


def _order(timer: SlotTimer) -> tuple[int, int]:
    """Its time and domain."""
    domain, time = timer[1][:2]
    return time, domain
