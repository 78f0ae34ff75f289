"""Timers as users see them."""

from __future__ import annotations

from typing import Any

from keystate.functions.contexts import TimeDomain

#: A timer that is set: its clock, its time in ms, and of a window's timer the window's start and
#: end in ms.
SetTimer = tuple[Any, ...]


def set_timer_of(domain: int, time: int, end: int | None = None, start: int = 0) -> SetTimer:
    """A timer by the number of its domain, and the end and start of its window."""
    named = (TimeDomain(domain), time)
    return named if end is None else (*named, (start, end))
