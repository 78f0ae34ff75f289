"""Timers of windows: each reader of a checkpoint knows to which window they belong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import Time, admin
from keystate.functions import TimeDomain
from keystate.windows import EventTimeSessionWindows, SlidingEventTimeWindows
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.contract.window_cases import Sum
from tests.drawn import drawn
from tests.query.test_windows import OUTPUT, SCHEMA, TUMBLING, Total, at, windows

SLIDING = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))
SESSIONS = EventTimeSessionWindows.with_gap(Time.seconds(10))
TIMERS = "$window_timers"
#: Of these rows a has windows from 0 and 5 on, and b one more; then the watermark is at 8.
ROWS = [[("a", 1, at(6)), ("b", 2, at(6)), ("b", 3, at(12))], [("c", 4, at(8))]]


class Opened(Total):
    """Rows come to it one by one."""

    def open(self, ctx: Any) -> None:
        pass


def sums(assigner: Any, function: Any, lateness: int = 0) -> Callable[[Any], Any]:
    def build(df: Any) -> Any:
        over = windows(df, assigner, "4 seconds").allowed_lateness(lateness)
        return over.aggregate(Sum(), "long", OUTPUT, function)

    return build


def lists(assigner: Any, function: Any) -> Callable[[Any], Any]:
    return lambda df: windows(df, assigner, "4 seconds").process(function, OUTPUT)


@pytest.fixture(params=["hashmap", "rocksdb"])
def half(request: Any, stream: Callable[..., Any], settings: Callable[..., None]) -> Any:
    """A query whose windows are open."""
    settings(**{"spark.keystate.backend": request.param})
    fed = stream(SCHEMA)
    fed.feed(*ROWS)
    assert fed.run(sums(SLIDING, Total())) == []
    return fed


def timers(spark: Any, checkpoint: Any) -> list[Any]:
    rows = admin.read_state(spark, str(checkpoint), state=TIMERS)
    assert {row.time_domain for row in rows.collect()} <= {"EVENT_TIME"}
    found = rows.select("key.key", "expiration_timestamp_ms", "window.start", "window.end")
    return sorted(tuple(row) for row in found.collect())


def expected(keys: dict[str, list[int]]) -> list[Any]:
    """The timers of windows that begin at these seconds."""
    return sorted(
        (key, start * 1000 + 9999, start * 1000, start * 1000 + 10_000)
        for key, starts in keys.items()
        for start in starts
    )


OPEN = {"a": [0, 5], "b": [0, 5, 10], "c": [0, 5]}


def finish(fed: Any, build: Callable[[Any], Any]) -> list[Any]:
    fed.feed([("z", 0, at(100))], [("z", 0, at(101))])
    return sorted(tuple(row) for row in fed.run(build))


def test_tables_and_histories_have_the_windows(half: Any, spark: Any) -> None:
    assert timers(spark, half.checkpoint) == expected(OPEN)
    *_, last = admin.history(str(half.checkpoint), key="b", spark=spark)
    of_b = [
        (TimeDomain.EVENT_TIME, time, (start, end))
        for _, time, start, end in expected({"b": OPEN["b"]})
    ]
    assert last.timers == of_b


def test_a_forgotten_key_has_no_timer_of_a_window(half: Any, spark: Any) -> None:
    admin.forget(str(half.checkpoint), key="b", spark=spark)
    half.feed([("c", 5, at(9))])
    assert half.run(sums(SLIDING, Total())) == []
    assert timers(spark, half.checkpoint) == expected({"a": OPEN["a"], "c": OPEN["c"]})
    assert finish(half, sums(SLIDING, Total())) == [
        ("a", 0, 1),
        ("a", 5, 1),
        ("c", 0, 9),
        ("c", 5, 9),
    ]


def test_a_copy_with_another_key_fires_its_windows(half: Any, spark: Any, tmp_path: Any) -> None:
    editor = admin.edit(str(half.checkpoint), spark=spark)
    assert TIMERS in editor.operators[0]
    renamed = F.concat("key.key", F.lit("!")).alias("key")
    editor.rekey("key string", lambda df: df.select(renamed, *df.columns[1:]))
    rows = editor.read("window-contents").where("key.key = 'b!' or user_map_key.start = 5000")
    editor.replace("window-contents", rows)
    editor.replace(TIMERS, editor.read(TIMERS).where("key.key = 'b!' or window.start = 5000"))
    target = tmp_path / "copy"
    editor.write(str(target))
    kept = {"a!": [5], "b!": OPEN["b"], "c!": [5]}
    assert timers(spark, target) == expected(kept)
    half.checkpoint = target
    found = finish(half, sums(SLIDING, Total()))
    assert found == [("a!", 5, 1), ("b!", 0, 2), ("b!", 5, 5), ("b!", 10, 3), ("c!", 5, 4)]


def test_a_replay_finds_the_same_timers(half: Any, spark: Any) -> None:
    half.feed([("a", 7, at(30))], [("a", 7, at(31))])
    half.run(sums(SLIDING, Total()))
    query = sums(SLIDING, Total())(half.source())
    replay = keystate.replay(query, str(half.checkpoint), key="a", batches=range(2, 5))
    assert not replay.differences
    assert any(step.timer is not None for step in replay.steps)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sums(SLIDING, Total()), sums(SLIDING, Opened())),
        (sums(TUMBLING, Total(), 20_000), sums(TUMBLING, Opened(), 20_000)),
        (sums(SESSIONS, Total(), 20_000), sums(SESSIONS, Opened(), 20_000)),
        (lists(SLIDING, Total()), lists(SLIDING, Opened())),
    ],
    ids=["sliding", "late", "sessions", "lists"],
)
@pytest.mark.parametrize("backend", drawn("dumps of windows", ["hashmap", "rocksdb"], 1))
def test_grouped_rows_store_what_rows_one_by_one_store(
    one: Any, other: Any, backend: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.backend": backend})
    emitted, checkpoints = [], []
    for build in (one, other):
        fed = stream(SCHEMA)
        fed.feed(*ROWS)
        rows = fed.run(build)
        fed.feed([("a", 5, at(3)), ("b", 6, at(14)), ("b", 1, at(25))], [("c", 2, at(24))])
        rows += fed.run(build)
        emitted.append(sorted(map(tuple, rows)))
        checkpoints.append(str(fed.checkpoint))
    assert emitted[0] == emitted[1]
    states = {found["state"]: found for found in admin.diff(*checkpoints)}
    assert all(
        (found["added"], found["removed"], found["changed"]) == (0, 0, 0)
        for found in states.values()
    )
    assert states[TIMERS]["same"] > 0


def test_open_windows_refuse_another_clock_and_name_themselves(half: Any) -> None:
    def by_clock(df: Any) -> Any:
        return windows(df, TUMBLING, "4 seconds").process(Total(), OUTPUT)

    half.feed([("a", 1, at(9))])
    with pytest.raises(StreamingQueryException) as raised:
        half.run(by_clock)
    told = str(raised.value)
    assert "KEYSTATE_OPEN_WINDOWS" in told and "an accumulator each" in told
    assert "1970-01-01T00:00:05Z to 1970-01-01T00:00:15Z" in told
    assert len(finish(half, sums(SLIDING, Total()))) == 7
    half.feed([("y", 1, at(200))], [("y", 1, at(220))], [("y", 1, at(221))])
    assert ("y", 200, 1) in [tuple(row) for row in half.run(sums(SLIDING, Total()))]
