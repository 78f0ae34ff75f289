"""Notices that a function reads a clock, or random numbers."""

from __future__ import annotations

import datetime
import os
import random
import sys
import sysconfig
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pyarrow
import pyspark

_CLOCKS = {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime"}
_NOW = {"now", "utcnow", "today"}
_RANDOM = {"uuid1", "uuid4", "token_bytes", "token_hex", "token_urlsafe", "randbelow"}
_STDLIB = sysconfig.get_paths()["stdlib"]
_RANDOM_FILES = tuple(str(Path(_STDLIB) / f"{name}.py") for name in ("random", "uuid", "secrets"))
_OTHERS = tuple(
    f"{Path(str(module)).parent}{os.sep}"
    for module in (Path(__file__).parents[1], pyspark.__file__, pyarrow.__file__)
)
_GLOBAL: Any = getattr(random, "_inst", None)


class Watch:
    """While it is entered, notes what code that is not Keystate's or Python's reads.

    Where a profiler is at work it notes nothing: there can be one only.

    Attributes:
        clocks: what was called, and where.
        randomness: likewise of random numbers.
    """

    def __init__(self) -> None:
        self.clocks: dict[str, str] = {}
        self.randomness: dict[str, str] = {}

    def __enter__(self) -> Watch:
        self._watches = sys.getprofile() is None
        if self._watches:
            sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        if self._watches:
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            owner, name = getattr(arg, "__self__", None), arg.__name__
            if name in _CLOCKS and isinstance(owner, ModuleType) and owner.__name__ == "time":
                self._note(self.clocks, f"time.{name}()", frame)
            elif name in _NOW and isinstance(owner, type) and issubclass(owner, datetime.date):
                self._note(self.clocks, f"{owner.__name__}.{name}()", frame)
            elif owner is _GLOBAL and owner is not None:
                self._note(self.randomness, f"random.{name}()", frame)
            elif name == "urandom":
                self._note(self.randomness, "os.urandom()", frame)
        elif event == "call" and frame.f_code.co_filename in _RANDOM_FILES:
            code = frame.f_code
            of_global = frame.f_locals.get("self") is _GLOBAL and _GLOBAL is not None
            if (of_global or code.co_name in _RANDOM) and frame.f_back is not None:
                module = Path(code.co_filename).stem
                self._note(self.randomness, f"{module}.{code.co_name}()", frame.f_back)

    def _note(self, found: dict[str, str], what: str, frame: FrameType) -> None:
        file = frame.f_code.co_filename
        of_python = file.startswith(_STDLIB) and "site-packages" not in file
        if not of_python and not file.startswith(_OTHERS) and not file.startswith("<frozen"):
            found.setdefault(what, f"{file}:{frame.f_lineno}")
