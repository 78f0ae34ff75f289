"""Notices when a function reads a clock or draws random numbers, which differ in another run."""

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

CLOCK, RANDOM = "clock", "random"

#: What is called, by what it looks at and what is shown of it. Those that only measure how long
#: something takes, as time.monotonic(), are not among them.
_CALLS: dict[Any, tuple[str, str]] = {
    time.time: (CLOCK, "time.time()"),
    time.time_ns: (CLOCK, "time.time_ns()"),
    os.urandom: (RANDOM, "os.urandom()"),
    random.random: (RANDOM, "random.random()"),
    random.getrandbits: (RANDOM, "random.getrandbits()"),
}
_OF_DATES = ("now", "utcnow", "today")
_LIBRARY = (sysconfig.get_paths()["stdlib"], "<frozen ")
#: What these look at is no result: logging writes the time, PySpark pickles by ids.
_NO_RESULTS = (__name__.partition(".")[0], "logging", "pyspark", "pyarrow")
_T = TypeVar("_T")


def noticing(steps: Iterator[_T], calls: dict[str, str]) -> Iterator[_T]:
    """The steps, with such calls added that are made as one after the other is taken.

    Args:
        steps: what runs the function.
        calls: the calls with their places, each once, and what each looks at.
    """
    while True:
        with noticed(calls):
            step = next(steps, None)
        if step is None:
            return
        yield step


@contextmanager
def noticed(calls: dict[str, str]) -> Iterator[None]:
    """Adds such calls that are made meanwhile.

    It uses what profilers use: under one it notices nothing. A debugger is not disturbed.
    """
    if sys.getprofile() is not None:
        yield
        return

    def saw(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and (read := _read(called)) and (place := _place(frame, read[1])):
            calls.setdefault(place, read[0])

    sys.setprofile(saw)
    try:
        yield
    finally:
        sys.setprofile(None)


def _read(called: Any) -> tuple[str, str] | None:
    if not isinstance(called, BuiltinFunctionType):
        return None
    of = called.__self__
    if isinstance(of, type) and issubclass(of, datetime.date) and called.__name__ in _OF_DATES:
        return CLOCK, f"{of.__name__}.{called.__name__}()"
    return _CALLS.get(called)


def _place(frame: FrameType | None, called: str) -> str | None:
    """The call and its place in code outside Python's library; None if no result depends on it."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in _NO_RESULTS:
            return None
        code = frame.f_code
        if "site-packages" in code.co_filename or not code.co_filename.startswith(_LIBRARY):
            return f"{called} in {os.path.basename(code.co_filename)}, line {frame.f_lineno}"
        called = f"{module}.{code.co_name}()"
        frame = frame.f_back
    return None
