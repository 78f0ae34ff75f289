"""What states do, over Spark Connect: one contract test; with SLOW=1 all that run queries."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract import (
    test_behaviour,
    test_co_process,
    test_read_now,
    test_sorted_map,
    test_state_model,
    test_timers,
    test_ttl,
    test_types,
)

MODULES = (
    test_behaviour,
    test_co_process,
    test_read_now,
    test_sorted_map,
    test_state_model,
    test_timers,
    test_ttl,
    test_types,
)


@pytest.mark.turns
def test_cases_of_behaviour(stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    test_behaviour.test_query("rocksdb", "1000", stream, settings)


if os.environ.get("SLOW"):
    for module in MODULES:
        for name, test in vars(module).items():
            if name.startswith("test_") and {"spark", "stream"} & set(
                inspect.signature(test).parameters
            ):
                # Two modules may have tests of one name.
                globals()[module.__name__.rpartition(".")[2] + name.removeprefix("test")] = test
