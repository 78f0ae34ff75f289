"""Waits by polling for a condition that sends no notification."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    look: Callable[[], T], awaited: str, seconds: float = 60, interval: float = 0.02
) -> T:
    """Looks again and again; returns the first thing that counts as true.

    Args:
        look: what looks.
        awaited: what it looks for.
        seconds: how long to wait.
        interval: how many seconds are between two looks.

    Raises:
        TimeoutError: it has not come. The error names `awaited`.
    """
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain for {awaited}")
        time.sleep(interval)
    return found
