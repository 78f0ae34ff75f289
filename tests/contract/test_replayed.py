"""What replays need of the harness: state that is given, steps, and values as code."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import keystate
import pytest
from keystate import DeclarationError, TimeDomain
from keystate._types.counted import counted
from keystate.checkpoints.differences import changed_parts
from keystate.live.replay.steps import Difference
from keystate.testing import KeyedTwoInputHarness, rows_of, same_values
from keystate.testing._job import Clock
from keystate.testing._literals import Literals
from keystate.testing._rows import InputEncoder, Rows
from keystate.testing._setup import Setup
from keystate.testing._steps import SteppingJob
from pyspark.sql import Row

from tests.query.replayed import Rich, Totals

FIRST, SECOND = "key string, value long, at timestamp", "key string, other long, at timestamp"


def rich() -> KeyedTwoInputHarness:
    return KeyedTwoInputHarness(
        Rich(),
        FIRST,
        "key",
        SECOND,
        "key",
        "key string, value long",
        event_time1="at",
        event_time2="at",
    )


def test_state_and_timers_that_are_given() -> None:
    moment = datetime.datetime.fromtimestamp(1)
    given = {
        "last": Row(value=5, at=moment),
        "recent": [1, 2],
        "seen": {"1": 6},
        "all": [7],
        "sorted": {2: 9, 1: 8},
        "sum": 10,
        "mean": (2, 3),
    }
    with rich() as harness:
        harness.advance_watermark(1000)
        harness.set_processing_time(1000)
        for name, value in given.items():
            harness.set_state("ann", name, value)
        harness.set_timer("ann", TimeDomain.EVENT_TIME, 3000)
        assert {name: harness.state("ann", name) for name in given} == given
        assert harness.timers("ann") == [(TimeDomain.EVENT_TIME, 3000)]
        assert harness.process2(("ann", 3, moment + datetime.timedelta(seconds=1))) == [("ann", 3)]
        assert harness.state("ann", "sum") == 7 and harness.state("ann", "sorted") == {2: 9}
        assert harness.advance_watermark(3000) == [("timer ann", 1007)]
        # Half of a list that lives for 700 ms.
        harness.set_state("ann", "recent", [1, 2], used_at=[200, 900])
        harness.set_processing_time(1100)
        assert harness.state("ann", "recent") == [2]
        harness.set_state("ann", "all", [])
        harness.set_state("ann", "last", None)
        assert harness.state("ann", "all") == [] and harness.state("ann", "last") is None
        with pytest.raises(DeclarationError, match="no state 'none'"):
            harness.set_state("ann", "none", 1)


def test_steps_of_a_micro_batch_are_the_micro_batch() -> None:
    setup = Setup(
        keystate.keyed(rows_of("key string, value long"), "key").process(
            Totals(), "key string, total long"
        ),
        1,
        128,
        (),
        (),
    )
    job = SteppingJob(setup)
    rows = InputEncoder(setup.inputs[0], "").encode([("ann", 3), ("ann", 4)])
    own = job.keys.of_user("ann")
    steps = list(job.steps(own, Rows([rows]), 2, Clock(1, None, 5), Clock(0, None, 0)))
    job.close()
    assert [(one.before[0], one.after[0], one.results) for one in steps] == [
        ({}, {"total": 3}, [("ann", 3)]),
        ({"total": 3}, {"total": 7}, [("ann", 7)]),
    ]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, 2.5, "it's", b"x", True],
        {"a": Row(x=1, y=[Row(z=None)])},
        (Decimal("1.50"),),
        datetime.datetime(2024, 1, 1, 2, 3, 4, 5),
        datetime.timedelta(days=-1),
        float("inf"),
        Row("a b")(3),
        [(TimeDomain.EVENT_TIME, 3)],
    ],
)
def test_a_value_is_what_its_code_makes(value: Any) -> None:
    write = Literals()
    code = write(value)
    names: dict[str, Any] = {}
    exec("\n".join(write.imports()), names)
    assert eval(code, names) == value


def test_a_function_is_imported_as_it_is() -> None:
    write = Literals()
    names: dict[str, Any] = {}
    plain, made = write.function(Totals), write.function(Totals(fails_at=5))
    exec("\n".join(write.imports()), names)
    assert eval(plain, names) is Totals
    assert eval(made, names).fails_at == 5

    class Local(Totals):
        pass

    with pytest.raises(DeclarationError, match="a test can't import "):
        write.function(Local())
    with pytest.raises(DeclarationError, match="can't write a set"):
        write({1})


NAN = [float("nan"), float("nan")]


@dataclass(eq=False)
class Held:
    value: Any


@pytest.mark.parametrize(
    ("made", "alike"),
    [
        (lambda nan: nan, True),
        (lambda nan: [1.0, [nan]], True),
        (lambda nan: {nan: 1, 2: nan}, True),
        (lambda nan: {"b": {nan}, "a": (nan,)}, True),
        (lambda nan: Row(a=nan, b={1: {2: nan}}), True),
        (lambda nan: Held([Held(nan)]), True),
        (lambda nan: [nan, id(nan)], False),
        (lambda nan: Row(a=nan, b=id(nan)), False),
        (lambda nan: Held(Held(id(nan))), False),
    ],
)
def test_values_that_are_the_same(made: Callable[[float], Any], alike: bool) -> None:
    one, other = map(made, NAN)
    assert same_values(one, other) == same_values(other, one) == alike
    assert same_values(one, one)


def test_what_is_alike() -> None:
    assert same_values({1: float("nan"), 2: -0.0}, {2: 0.0, 1: float("nan")})
    assert not same_values([float("nan")], [float("nan"), float("nan")])
    assert not same_values(float("nan"), None) and not same_values(float("nan"), "nan")
    was, now = ({nan: [nan], 1.0: nan, 2.0: 0.5} for nan in NAN)
    assert changed_parts("by", was, now) == []
    assert changed_parts("by", was, {**now, NAN[1]: [NAN[0], 1.0]}) == [
        "by[nan]: [nan] → [nan, 1.0]"
    ]
    assert changed_parts("all", [NAN[0]], [NAN[1], 5]) == ["all: + 5"]


def test_a_difference_says_what_is_not_there() -> None:
    def told(stored: Any, replayed: Any) -> str:
        return str(Difference(6, "n", stored, replayed, None))

    by = "(changed by no step of the batch)"
    assert told(None, 1) == f"batch 6: n: nothing in the checkpoint, replayed 1 {by}"
    assert told(1, None) == f"batch 6: n: 1 in the checkpoint, replayed nothing {by}"
    assert told("→", "{}") == f"batch 6: n: '→' in the checkpoint, replayed '{{}}' {by}"
    assert told({1: 2}, {}) == f"batch 6: n[1]: 2 in the checkpoint, replayed nothing {by}"


def test_numbers_of_things() -> None:
    told = [counted(n, noun) for n, noun in [(0, "step"), (1, "step"), (2000, "entry"), (3, "key")]]
    assert told == ["0 steps", "1 step", "2,000 entries", "3 keys"]
