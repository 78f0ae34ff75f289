"""What an operator emits at a time by the watermark is not late for the next one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.window_cases import at
from tests.drawn import drawn
from tests.fuzz import pairs


@pytest.mark.parametrize("after", pairs.AFTER)
@pytest.mark.parametrize("before", pairs.BEFORE)
@pytest.mark.parametrize("seed", drawn("two operators", range(20), 1))
def test_nothing_is_lost_between_two_operators(
    before: str, after: str, seed: int, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.shuffle.partitions": "2"})
    program = pairs.generate(random.Random(f"{seed} {before} {after}"), before, after)
    fed = stream(pairs.SCHEMA)
    fed.feed(*([(k, value, at(time)) for k, value, time in rows] for rows in program.batches))
    rows = fed.source().withWatermark("time", "0 seconds")
    found = itertools.chain(*fed.micro_batches(pairs.build(program, rows)))
    assert pairs.differences(pairs.expected(program), pairs.emitted([*found])) == []
