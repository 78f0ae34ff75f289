"""What one key had after each micro-batch, and lookups in a version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTypeError,
    TimeDomain,
    ValueStateDescriptor,
    admin,
)
from keystate.checkpoints.differences import changed_parts, moment
from keystate.checkpoints.history import Change, KeyReader
from keystate.tools.command import main
from keystate.tools.history import KeyFollower

from tests.query.test_lookup import KEYS, jobs

TIMER = 4_000_000_000_000


class Clicks(KeyedProcessFunction):
    """Counts and lists; a negative value forgets all."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))
        self.by_value = ctx.get_map_state(MapStateDescriptor("by_value", "string", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.value < 0:
            for state in (self.total, self.all, self.by_value):
                state.clear()
            return
        self.total.update(self.total.value() + row.value)
        self.all.add(row.value)
        self.by_value[str(row.value)] = row.value
        if row.value > 5:
            ctx.timer_service().register_processing_time_timer(TIMER + row.value)
        yield row.key, self.total.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from ()


@pytest.mark.turns
def test_history_of_a_key(
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    fed = stream("key string, value long")

    def build(df: Any) -> Any:
        return keystate.keyed(df, "key").process(Clicks(), "key string, total long")

    many = [(f"other {i}", 9) for i in range(KEYS)]  # enough for run files
    fed.feed([("ann", 3), *many], [("bob", 1)], [("ann", 7), ("ann", 1)])
    fed.run(build)
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([("bob", 2), *many], [("ann", -1)])
    fed.run(build)
    checkpoint = str(fed.checkpoint)
    before = jobs(spark)
    found = admin.history(checkpoint, key="ann")
    assert jobs(spark) == before, "it ran a Spark job"
    assert [(one.version, one.batch) for one in found] == [(n + 1, n) for n in range(5)]
    timer = (TimeDomain.PROCESSING_TIME, TIMER + 7)
    first = {"total": 3, "all": [3], "by_value": {"3": 3}}
    then = {"total": 11, "all": [3, 7, 1], "by_value": {"1": 1, "3": 3, "7": 7}}
    assert [one.states for one in found] == [first, first, then, then, {}]
    assert [one.timers for one in found] == [[], [], *[[timer]] * 3]
    assert [len(one.changes) for one in found] == [3, 0, 4, 0, 3]
    assert Change("$timers", [], [timer]) in found[2].changes
    times = [one.time for one in found]
    assert times == sorted(times) and len(set(times)) == 5
    assert [one.watermark for one in found] == [0] * 5
    shown = str(found)
    assert shown.startswith("Key 'ann' in operator 0: versions 1 to 5\nbatch  time")
    assert "total: 3 → 11" in shown and "all: + 7" in shown and "by_value['7']: 7" in shown
    assert "timer set: processing time 2096-10-02T07:06:40.007Z" in shown
    page = found._repr_html_()
    assert "total: 11 → nothing" in page
    # A lane for each state and the timers, a mark for each change; hollow where nothing is left.
    assert (page.count("<path"), page.count("<circle"), page.count('fill="none"')) == (4, 10, 3)
    assert re.search(r"<title>batch 2, 20\S+Z\ntotal: 3 → 11</title>", page)
    for version, total in ((1, 3), (2, 3), (3, 11), (4, 11), (5, None)):
        assert admin.lookup(checkpoint, state="total", key="ann", version=version) == total
    with pytest.raises(CheckpointError, match="don't have batch 8"):
        admin.lookup(checkpoint, state="total", key="ann", version=9)
    assert admin.history(checkpoint, key="none")[4].states == {}
    with pytest.raises(CheckpointError, match="no keyed operator 3 "):
        admin.history(checkpoint, key="ann", operator=3)
    with pytest.raises(StateTypeError, match="key of operator 0"):
        admin.history(checkpoint, key=3)
    # The command, which needs no session.
    capsys.readouterr()
    assert main(["history", checkpoint, "ann", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["batch"] for one in told] == [0, 2, 4]
    assert told[1]["changes"][0] == {"state": "total", "before": 3, "after": 11}
    assert told[1]["changes"][3]["after"] == [["PROCESSING_TIME", TIMER + 7]]
    assert main(["get", checkpoint, "total", "ann", "--of-version", "2"]) == 0
    assert capsys.readouterr().out == "3\n"
    assert main(["history", checkpoint, "ann"]) == 0
    assert capsys.readouterr().out == f"{shown}\n"
    # Followed, while the query goes on.
    reader = KeyReader(spark, checkpoint, None)
    follower = KeyFollower(reader, ("ann",), found[1], as_json=False)
    waits = iter([None, None])

    def wait(seconds: float) -> None:
        if next(waits, wait) is wait:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follower.follow(0, wait)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9 and lines[0].startswith("2  ") and "total: 3 → 11" in lines[0]


class Typed(KeyedProcessFunction):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def open(self, ctx: Any) -> None:
        self.kept = ctx.get_list_state(ListStateDescriptor("kept", self.kind))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.kept.add({"n": row.value})
        yield (row.key,)


def test_a_state_of_another_type_after_a_restart(stream: Callable[..., Any]) -> None:
    """Each version has the type of its release, also where the key did not come."""
    fed = stream("key string, value int")
    for kind in ("n int", "n long, more string"):
        fed.feed([("a", 1)], [("b", 2)])
        fed.run(lambda df, kind=kind: keystate.keyed(df, "key").process(Typed(kind), "k string"))
    found = [dict(version.states) for version in admin.history(str(fed.checkpoint), key="a")]
    assert found == [{"kept": each} for each in ([(1,)], [(1,)], [(1, None)] * 2, [(1, None)] * 2)]
    found = [dict(version.states) for version in admin.history(str(fed.checkpoint), key="b")]
    assert found[1:] == [{"kept": each} for each in ([(2,)], [(2, None)], [(2, None)] * 2)]


def test_what_is_told_of_a_change() -> None:
    assert changed_parts("s", None, 3) == ["s: 3"]
    assert changed_parts("s", {"a": 1, "b": None}, {"a": 2}) == [
        "s['a']: 1 → 2",
        "s['b']: None → nothing",
    ]
    assert changed_parts("s", [1], [2]) == ["s: [1] → [2]"]
    assert moment(None) == "-" and moment(0) == "1970-01-01T00:00:00.000Z"
    assert moment(2**62) == f"{2**62} ms"
