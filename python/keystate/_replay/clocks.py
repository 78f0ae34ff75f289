"""Notices when a function looks at a clock of its own, or at chance: a replay gets others."""

from __future__ import annotations

import datetime
import os
import random
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FrameType
from typing import Any, TypeVar

#: What is called, by what is shown of it. Those that only measure how long something takes, as
#: time.monotonic(), are not among them.
_CALLS: dict[Any, str] = {
    time.time: "time.time()",
    time.time_ns: "time.time_ns()",
    os.urandom: "os.urandom()",
    random.random: "random.random()",
    random.getrandbits: "random.getrandbits()",
}
_OF_DATES = ("now", "utcnow", "today")
_LIBRARY = sysconfig.get_paths()["stdlib"]
#: Looks at the clock, and what it writes is no result.
_LOGGING = "logging"
_T = TypeVar("_T")
_OWN = __name__.partition(".")[0]


def noticing(steps: Iterator[_T], calls: dict[str, None]) -> Iterator[_T]:
    """The steps, with such calls added that are made as one after the other is taken.

    Args:
        steps: what runs the function.
        calls: the calls with their places, each once.
    """
    while True:
        with _noticed(calls):
            step = next(steps, None)
        if step is None:
            return
        yield step


@contextmanager
def _noticed(calls: dict[str, None]) -> Iterator[None]:
    """Uses what profilers use: under one it notices nothing. A debugger is not disturbed."""
    if sys.getprofile() is not None:
        yield
        return

    def saw(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and (what := _told(called)) and (place := _place(frame)):
            calls[f"{what} in {place}"] = None

    sys.setprofile(saw)
    try:
        yield
    finally:
        sys.setprofile(None)


def _told(called: Any) -> str | None:
    if not isinstance(called, BuiltinFunctionType):
        return None
    of = called.__self__
    if isinstance(of, type) and issubclass(of, datetime.date) and called.__name__ in _OF_DATES:
        return f"{of.__name__}.{called.__name__}()"
    return _CALLS.get(called)


def _place(frame: FrameType | None) -> str | None:
    """Where the caller is that is not of Python's library. None if it is Keystate's own."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module in (_OWN, _LOGGING):
            return None
        file = frame.f_code.co_filename
        if "site-packages" in file or not file.startswith(_LIBRARY):
            return f"{os.path.basename(file)}, line {frame.f_lineno}"
        frame = frame.f_back
    return None
