"""New code beside a query that runs: forked, compared on the same micro-batches, and dropped."""

from __future__ import annotations

import datetime
import json
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CanaryRows,
    CheckpointError,
    ConfigurationError,
    KeyedProcessFunction,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from keystate.live.starts import is_same

from tests.drawn import drawn

KEYS = 6
OUTPUT = "key long, count long"


class Count(KeyedProcessFunction):
    """Counts, and notes the micro-batch's clock, which a comparison would find if it differed."""

    step = 1

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.at = ctx.get_state(ValueStateDescriptor("at", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + self.step_of(row))
        self.at.update(ctx.timer_service().current_processing_time())
        yield row.key, self.count.value()

    def step_of(self, row: Any) -> int:
        return 1


class TwiceForOne(Count):
    def step_of(self, row: Any) -> int:
        return 2 if row.key == 1 else 1


class Fails(Count):
    def step_of(self, row: Any) -> int:
        if row.n == 3:
            raise ValueError("three")
        return 1


class Counting:
    """A query that counts, and what the micro-batches of old and new code gave."""

    def __init__(self, fed: Any) -> None:
        self.fed = fed
        self.old: dict[int, list[Any]] = {}
        self.new: dict[int, list[Any]] = {}
        self.rounds = 0

    @property
    def checkpoint(self) -> str:
        return str(self.fed.checkpoint)

    def feed(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            self.fed.feed([(key, self.rounds) for key in range(KEYS)])
            self.rounds += 1

    def start(self, fn: Any, checkpoint: str, into: dict[int, list[Any]], **trigger: Any) -> Any:
        def take(df: Any, batch: int) -> None:
            into[batch] = [tuple(row) for row in df.collect()]

        counted = keystate.keyed(self.fed.source(), "key").process(
            fn, OUTPUT, time_mode="processing_time"
        )
        writer = counted.writeStream.foreachBatch(take).trigger(**trigger)
        return writer.option("checkpointLocation", checkpoint).start()

    def start_new(self, fn: Any) -> Callable[[str], Any]:
        return lambda checkpoint: self.start(fn, checkpoint, self.new, processingTime="0 seconds")

    def rows(self, spark: Any) -> CanaryRows:
        def read(of: dict[int, list[Any]]) -> Callable[[int, int], Any]:
            return lambda first, last: spark.createDataFrame(
                [row for batch in range(first, last + 1) for row in of[batch]], OUTPUT
            )

        return CanaryRows(read(self.old), read(self.new), ["key"])

    def check(self) -> None:
        """The old query has counted each row once."""
        rows = [row for batch in sorted(self.old) for row in self.old[batch]]
        for key in range(KEYS):
            counted = [count for k, count in rows if k == key]
            assert counted == list(range(1, self.rounds + 1)), key


@pytest.fixture
def counting(stream: Any, running: list[Any]) -> Counting:
    """The old query runs, and has committed six micro-batches."""
    made = Counting(stream("key long, n long"))
    made.feed(6)
    query = made.start(Count(), made.checkpoint, made.old, processingTime="0 seconds")
    running.append(query)
    query.processAllAvailable()
    return made


def left(counting: Counting) -> list[str]:
    """What there is beside the checkpoint and its input."""
    folder = Path(counting.checkpoint).parent
    return sorted(
        path.name for path in folder.iterdir() if path.name not in ("checkpoint", "input")
    )


def of_state(report: Any, name: str) -> dict[str, Any]:
    (found,) = (one for one in report.states if one["state"] == name)
    return {kind: found[kind] for kind in ("same", "changed", "added", "removed")}


def test_the_same_code_agrees(spark: Any, counting: Counting) -> None:
    (query,) = spark.streams.active
    with keystate.canary(query, counting.start_new(Count()), version=2, spark=spark) as canary:
        assert canary.batch == 1 and left(counting) == ["checkpoint.canary"]
        counting.feed()
        report = canary.compare(3, alone=0, rows=counting.rows(spark), timeout_seconds=60)
        assert report.agrees and report.error is None, report
        assert (report.first_batch, report.last_batch) == (2, 4)
        same = {"same": KEYS, "changed": 0, "added": 0, "removed": 0}
        assert of_state(report, "count") == of_state(report, "at") == same
        assert report.rows == {
            "old": 3 * KEYS,
            "new": 3 * KEYS,
            **same,
            "columns": {},
            "examples": [],
        }
        assert report.old is None and report.new is None
        assert "agrees" in str(report)
        assert json.loads(report.json())["agrees"] is True
        # No other micro-batch came to the new sink, though there was input.
        assert sorted(counting.new) == [2, 3, 4]
        query.processAllAvailable()
    assert left(counting) == [] and query.isActive
    assert admin.savepoints(counting.checkpoint, spark=spark) == []
    with pytest.raises(ConfigurationError, match=r"KEYSTATE_CANNOT_CANARY.*dropped"):
        canary.compare()
    counting.check()


@pytest.mark.parametrize("checkpoint_format", drawn("code that differs", ["1", "2"], 1))
def test_code_that_differs(
    checkpoint_format: str,
    spark: Any,
    stream: Any,
    settings: Callable[..., None],
    running: list[Any],
) -> None:
    """While rows come; forked where the query is then, and again."""
    settings(**{FORMAT_KEY: checkpoint_format})
    counting = Counting(stream("key long, n long"))
    counting.feed()
    query = counting.start(Count(), counting.checkpoint, counting.old, processingTime="0 seconds")
    running.append(query)
    query.processAllAvailable()
    done = threading.Event()

    def feed() -> None:
        while not done.wait(0.2):
            counting.feed()

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        with keystate.canary(
            counting.checkpoint, counting.start_new(TwiceForOne()), spark=spark
        ) as canary:
            report = canary.compare(2, alone=0, rows=counting.rows(spark), timeout_seconds=60)
            again = canary.compare(1, alone=1, timeout_seconds=60)
    finally:
        done.set()
        feeder.join()
    query.processAllAvailable()
    counting.check()
    one = {"same": KEYS - 1, "changed": 1, "added": 0, "removed": 0}
    assert not report.agrees and report.error is None and "differs" in str(report)
    assert of_state(report, "count") == one and of_state(report, "at")["same"] == KEYS
    assert report.rows is not None and report.rows["changed"] == 1
    (example,) = report.rows["examples"]
    assert example["key"] == '{"key":1}' and len(example["old"]) == 2
    assert report.new is None and report.rows["old"] == 2 * KEYS
    assert report.rows["columns"] == {"count": 1}
    counts = {"added": 0, "removed": 0, "changed": 1}
    of_states = {"operator": 0, "state": "count", **counts}
    assert report.differences() == [of_states, {"column": "count", "changed": 1}]
    assert report.differences(except_columns=["count"]) == [of_states]
    assert report.differences(except_states=["count"], except_columns=["count"]) == []
    # Of another fork: so it counted once, twice.
    assert of_state(again, "count") == one and again.first_batch > report.last_batch
    assert again.rows is None
    for pace in (again.old, again.new):
        assert pace is not None and pace.batches >= 1 and pace.rows == KEYS * pace.batches
        assert pace.state_rows == 2 * KEYS and pace.rows_per_second > 0 and pace.state_bytes > 0
    assert "rows/s" in str(again) and "rows/s" in again.html()


class Pass(KeyedProcessFunction):
    """Gives its rows on, and has a state."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_state(ValueStateDescriptor("seen", "boolean"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.seen.update(True)
        yield row.key, row.n


@pytest.mark.parametrize("edited", [False, True])
def test_the_new_code_forgets_what_the_old_forgot(
    edited: bool, spark: Any, counting: Counting
) -> None:
    """A micro-batch forgot a key before its rows; the new code has an operator before the first."""

    def edit(editor: Any) -> None:
        editor.add_operator(Pass(), key="key long")

    def start_new(checkpoint: str) -> Any:
        rows = counting.fed.source()
        if edited:
            rows = keystate.keyed(rows, "key").process(Pass(), "key long, n long")
        counted = keystate.keyed(rows, "key").process(Count(), OUTPUT, time_mode="processing_time")
        writer = counted.writeStream.foreachBatch(
            lambda df, batch: counting.new.update({batch: df.collect()})
        )
        return writer.option("checkpointLocation", checkpoint).start()

    (query,) = spark.streams.active
    query.stop()
    admin.forget(counting.checkpoint, key=1, spark=spark)
    counting.feed()
    counting.start(Count(), counting.checkpoint, counting.old, availableNow=True).awaitTermination()
    assert dict(counting.old[6])[1] == 1
    with keystate.canary(
        counting.checkpoint, start_new, edit=edit if edited else None, version=6, spark=spark
    ) as canary:
        report = canary.compare(1, alone=0, rows=counting.rows(spark), timeout_seconds=60)
    assert report.error is None and report.states_error is None
    same = {"same": KEYS, "changed": 0, "added": 0, "removed": 0}
    assert of_state(report, "count") == of_state(report, "at") == same, report
    assert report.rows == {"old": KEYS, "new": KEYS, **same, "columns": {}, "examples": []}


def test_code_that_fails(spark: Any, counting: Counting) -> None:
    with keystate.canary(
        counting.checkpoint, counting.start_new(Fails()), version=2, spark=spark
    ) as canary:
        report = canary.compare(3, timeout_seconds=60)
    assert not report.agrees and report.failed_batch == 3
    assert report.error is not None and "three" in report.error and "three" in report.html()
    assert "failed in micro-batch 3" in str(report)
    assert "three" in report.differences()[0]["error"]
    counting.check()


def test_with_changes_of_the_state(spark: Any, counting: Counting) -> None:
    """An operator before the first, and a state with another name."""

    class Renamed(Count):
        def open(self, ctx: Any) -> None:
            self.count = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
            self.at = ctx.get_state(ValueStateDescriptor("at", "long"))

    def edit(editor: Any) -> None:
        editor.rename("count", "total", operator=0)
        editor.add_operator(Pass(), key="key long")

    def start_new(checkpoint: str) -> Any:
        passed = keystate.keyed(counting.fed.source(), "key").process(Pass(), "key long, n long")
        counted = keystate.keyed(passed, "key").process(
            Renamed(), OUTPUT, time_mode="processing_time"
        )
        writer = counted.writeStream.foreachBatch(
            lambda df, batch: counting.new.update({batch: df.collect()})
        )
        return writer.option("checkpointLocation", checkpoint).start()

    with keystate.canary(
        counting.checkpoint, start_new, edit=edit, version=2, spark=spark
    ) as canary:
        report = canary.compare(2, alone=0, rows=counting.rows(spark), timeout_seconds=60)
        assert left(counting) == ["checkpoint.canary", "checkpoint.canary.old"]
    assert report.error is None and report.states_error is None
    assert of_state(report, "at")["same"] == KEYS
    assert of_state(report, "total")["added"] == of_state(report, "count")["removed"] == KEYS
    assert report.rows is not None and report.rows["same"] == KEYS
    assert left(counting) == []
    counting.check()


def test_what_can_not_be(spark: Any, counting: Counting, tmp_path: Path) -> None:
    start_new = counting.start_new(Count())
    with pytest.raises(CheckpointError, match=r"KEYSTATE_CANNOT_CANARY.*no canary has made it"):
        keystate.canary(counting.checkpoint, start_new, at=counting.checkpoint + "/state")
    # What a driver left that died is replaced.
    keystate.canary(counting.checkpoint, start_new, spark=spark)
    Path(f"{counting.checkpoint}.canary/commits/5").unlink()
    Path(counting.checkpoint).with_name(f".checkpoint.canary.{uuid.uuid4()}").mkdir()
    canary = keystate.canary(counting.checkpoint, start_new, spark=spark)
    assert canary.batch == 5 and left(counting) == ["checkpoint.canary"]
    with pytest.raises(ConfigurationError, match="KEYSTATE_CANARY_NO_INPUT"):
        canary.compare(timeout_seconds=0.3)
    with pytest.raises(ValueError, match="must be positive"):
        canary.compare(0)
    # A start that does not heed where it is to start.
    elsewhere = str(tmp_path / "elsewhere")
    ignores = keystate.canary(
        counting.checkpoint, lambda _: start_new(elsewhere), version=2, spark=spark
    )
    with pytest.raises(ConfigurationError, match=r"KEYSTATE_CANNOT_CANARY.*elsewhere"):
        ignores.compare(1)
    ignores.drop()
    (query,) = spark.streams.active
    query.stop()
    with pytest.raises(ConfigurationError, match="KEYSTATE_QUERY_HAS_ENDED"):
        keystate.canary(query, start_new)
    assert left(counting) == []


def test_times_are_compared_to_the_microsecond(spark: Any) -> None:
    at = datetime.datetime(2024, 5, 1, 12, microsecond=1)

    def side(*rows: tuple[int, datetime.datetime, int | None]) -> Any:
        schema = "key int, time timestamp, ntz timestamp_ntz, m map<string, int>"
        table = [(key, time, time, {"n": n}) for key, time, n in rows]
        return lambda first, last: spark.createDataFrame(table, schema)

    later = at.replace(microsecond=2)
    sides = side((1, at, 1), (2, at, None)), side((1, later, 1), (2, at, None))
    assert CanaryRows(*sides, ["key"]).compare(0, 0)["changed"] == 1
    found = CanaryRows(*sides, ["time"]).compare(0, 0)
    assert (found["added"], found["removed"], found["changed"]) == (1, 0, 1)


def test_columns_may_be_in_another_order(spark: Any) -> None:
    rows = spark.createDataFrame([(1, "a", 2.0), (2, "b", 3.0)], "key int, name string, n double")
    swapped = rows.select("n", "name", "key")
    same = CanaryRows(lambda *_: rows, lambda *_: swapped, ["key"]).compare(0, 0)
    assert (same["same"], same["changed"]) == (2, 0)
    more = CanaryRows(lambda *_: rows, lambda *_: swapped.withColumn("x", swapped.n), ["key"])
    assert more.compare(0, 0)["changed"] == 2


def test_places_are_compared_as_a_whole(spark: Any) -> None:
    assert is_same(spark, "file:/a/b/q", "/a/b/q/") and is_same(spark, "file:/a", "file:///a")
    assert is_same(spark, f"file:{Path.cwd()}/a/q", "a/q")
    assert not is_same(spark, "file:/a/b/q", "/b/q"), "the end is the same"
    assert not is_same(spark, "file:/a/q#1", "/a/q#2")
    assert not is_same(spark, "", "/a"), "its query has ended"
