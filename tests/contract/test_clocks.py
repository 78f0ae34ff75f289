"""What replays and simulations notice of a function that looks at clocks and at chance."""

from __future__ import annotations

import cProfile
import datetime
import logging
import random
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from keystate.testing._clocks import noticing


def looking() -> Iterator[Any]:
    yield time.time()
    yield datetime.datetime.now(datetime.timezone.utc), datetime.date.today()
    yield uuid.uuid4()
    yield random.randint(1, 3)


def looking_elsewhere() -> Iterator[Any]:
    yield time.monotonic(), random.Random(1).random(), datetime.datetime(2024, 1, 1)
    yield time.strftime("%H", time.gmtime(60))
    logging.getLogger(__name__).warning("It is logged with a time.")
    yield sys.getprofile()


def test_each_call_is_told_with_its_place() -> None:
    calls: dict[str, str] = {}
    assert len(list(noticing(looking(), calls))) == 4
    line = looking.__code__.co_firstlineno
    assert list(calls.values()) == ["clock"] * 3 + ["random"] * 2
    assert list(calls) == [
        f"time.time() in test_clocks.py, line {line + 1}",
        f"datetime.now() in test_clocks.py, line {line + 2}",
        f"date.today() in test_clocks.py, line {line + 2}",
        f"uuid.uuid4() in test_clocks.py, line {line + 3}",
        f"random.randint() in test_clocks.py, line {line + 4}",
    ]


def test_what_is_no_matter() -> None:
    calls: dict[str, str] = {}
    assert list(noticing(looking_elsewhere(), calls))[-1] is not None
    assert calls == {} and sys.getprofile() is None
    with cProfile.Profile():
        profiler = sys.getprofile()
        list(noticing(looking(), calls))
        assert sys.getprofile() is profiler
    assert calls == {}
