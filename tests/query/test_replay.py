"""Micro-batches run again for a key: they give what the checkpoint has."""

from __future__ import annotations

import datetime
import io
import json
import os
import pdb
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    DeclarationError,
    FunctionError,
    SourceFunction,
    StateTypeError,
    Time,
)
from keystate.live.replay import every_key
from keystate.windows import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowFunction,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql import functions as F

from tests.contract.window_cases import Sum
from tests.query.replayed import (
    LARGE,
    RATES,
    Joins,
    NotNumbers,
    Opened,
    Paid,
    Rich,
    Stamped,
    Totals,
)
from tests.real_time import wait_for

KEYS = ["ann", "bob", "cem", "dee", "eve"]
BATCHES = 10
FIRST, SECOND = "key string, value long, at timestamp", "key string, other long, at timestamp"
#: So that the order of a key's rows is one.
ORDERED = {"order_by": "at"}


def at(second: float) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=second)


def rich(first: Any, second: Any, fn: Any) -> Any:
    one, two = (df.withWatermark("at", "2 seconds") for df in (first, second))
    return (
        keystate.keyed(one, "key")
        .connect(keystate.keyed(two, "key"))
        .process(fn, "key string, value long", ordered_by="at", name="rich")
    )


@pytest.fixture(scope="module")
def fed(spark: Any, tmp_path_factory: pytest.TempPathFactory, stream_class: Any) -> Any:
    """A query of two inputs that has run, with what each batch emitted: once for all tests."""
    folder = tmp_path_factory.mktemp("replay")
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    first, second = (
        stream_class(spark, folder / name, schema)
        for name, schema in (("first", FIRST), ("second", SECOND))
    )
    emitted: list[list[Row]] = []
    used = 0
    for partitions in ("2", "3"):
        for batch in range(BATCHES // 2):
            when = len(emitted) * 5 + batch * 5
            for fed, count in ((first, 8), (second, 3)):
                rows = []
                for _ in range(count):
                    used += 1
                    late = -30 if rng.random() < 0.1 else 0
                    moment = at(max(0, when + late + rng.random() * 5) + used / 1e5)
                    rows.append((rng.choice(KEYS), rng.randrange(100), moment))
                fed.feed(rows)
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        first.progress = []
        emitted += first.micro_batches(rich(first.source(), second.source(), Rich()))
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    first.second, first.emitted = second, emitted
    return first


def again(fed: Any, fn: Any, **options: Any) -> keystate.Replay:
    query = rich(fed.source(), fed.second.source(), fn)
    return keystate.replay(query, str(fed.checkpoint), **options)


@pytest.mark.turns
def test_random_batches_and_keys_are_as_they_were(spark: Any, fed: Any) -> None:
    cases = [(batch, key) for batch in range(len(fed.emitted)) for key in KEYS]
    random.shuffle(cases)
    fired = 0
    for batch, key in cases[: 50 if os.environ.get("SLOW") else 8]:
        made = again(fed, Rich(), key=key, batch=batch, side_outputs=[LARGE])
        assert made.same and made.committed, (batch, key, str(made))
        of_key = [row for row in fed.emitted[batch] if row.key in (key, f"timer {key}")]
        main = [row for step in made for row in step.emitted]
        assert main == of_key, (batch, key)
        large = [row.value for step in made for row in step.side["large"]]
        values = [step.row.value for step in made if step.row is not None and step.input == 0]
        assert large == [value for value in values if value > 60]
        fired += sum(step.timer is not None for step in made)
    assert fired


@pytest.mark.turns
def test_a_bug_is_found_where_it_began(spark: Any, fed: Any) -> None:
    batches = range(2, 6)  # some before the rescale, and the first after it
    good = again(fed, Rich(), key="bob", batches=batches)
    assert good.same, str(good)
    assert good.batches == list(batches)
    values = [step.row.value for step in good if step.input == 0 and step.row is not None]
    # Neither it nor one more clears the list.
    fit = [value for value in values if values.count(value) == 1 and value % 11 not in (0, 10)]
    bad = random.choice(fit)
    found = again(fed, Rich(bug=bad), key="bob", batches=batches)
    assert not found.same
    mine, theirs = found.first_difference(good) or (None, None)
    assert mine is not None and theirs is not None
    assert mine.row == theirs.row and mine.row.value == bad, "another row differs first"
    # What was appended to a list tells the row without the other replay, unless one of the batch
    # clears it: then the step is only guessed.
    (of_list,) = [one for one in found.differences if one.state == "all"] or [None]
    of_batch = [
        step.row.value for step in good if step.input == 0 and step.row and step.batch == mine.batch
    ]
    if of_list is not None and all(value % 11 for value in of_batch):
        assert of_list.step == mine
    assert {one.batch for one in found.differences} == {mine.batch}
    assert "something else than the checkpoint has" in str(found)


def test_all_keys_of_a_batch(spark: Any, fed: Any) -> None:
    # One with a key of which a timer was due and no row came, but rows of others, if there is one.
    quiet = [
        batch
        for batch, rows in enumerate(fed.emitted)
        for row in rows
        if row.key.startswith("timer ")
        and all(one.key != row.key[6:] for one in rows)
        and any(one.key in KEYS for one in rows)
    ]
    batch = [*quiet, 3][0]
    good = again(fed, Rich(), batch=batch)
    assert good.same and set(good) <= set(KEYS), str(good)
    main = [row for one in good.values() for step in one for row in step.emitted]
    assert sorted(main) == sorted(fed.emitted[batch])
    shown = str(good)
    assert shown.startswith(f"Batch {batch}: {len(good)} keys") and "as in the checkpoint" in shown
    assert "The function gives what it gave" in shown and "<table>" in good._repr_html_()
    rows = good.to_df().collect()
    assert len(rows) == sum(map(len, good.values()))
    assert {json.loads(row.key) for row in rows} == set(good)
    # A bug of one row: its key differs, and there first in this row; the others are as they were.
    steps = [(key, step) for key, one in good.items() for step in one]
    of_first = [(key, step.row.value) for key, step in steps if step.row and step.input == 0]
    values = [value for _, value in of_first]
    key, value = random.choice([one for one in of_first if values.count(one[1]) == 1])
    found = again(fed, Rich(bug=value), batch=batch)
    assert list(found.differences) == [key] and "for 1 of" in found.verdict()
    bad, _ = found[key].first_difference(good[key]) or (None, None)
    assert bad is not None and bad.row.value == value
    told = f"More than 1 keys have rows or timers in batch {batch}"
    with pytest.raises(CheckpointError, match=told) as error:
        again(fed, Rich(), batch=batch, max_keys=1)
    assert error.value.code == "KEYSTATE_CANNOT_REPLAY"


def test_what_it_shows_and_gives(spark: Any, fed: Any) -> None:
    key = next(row.key for row in fed.emitted[1] if row.key in KEYS)
    made = again(fed, Rich(), key=(key,), batch=1)
    assert made.key == key and len(made) == len(list(made))
    shown = str(made)
    steps = "1 step" if len(made) == 1 else f"{len(made)} steps"
    assert shown.startswith(f"Key '{key}', batch 1: {steps}\n"), shown
    assert "The function gives what it gave" in shown
    assert "<table>" in made._repr_html_()
    rows = made.to_df().collect()
    assert len(rows) == len(made) and rows[0].before.startswith("{") and rows[0].batch == 1


def test_what_cannot_be_replayed_is_told(
    spark: Any, fed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = str(fed.checkpoint)
    with pytest.raises(DeclarationError, match="takes what a stream makes"):
        keystate.replay(fed.source(), checkpoint, key="ann", batch=1)
    with pytest.raises(StateTypeError, match="key of operator 0"):
        again(fed, Rich(), key=3, batch=2)
    with pytest.raises(CheckpointError, match="don't have batch 99"):
        again(fed, Rich(), key="ann", batch=99)
    monkeypatch.setattr(every_key, "MOST_ROWS", 2)
    with pytest.raises(CheckpointError, match="more than 2 rows"):
        again(fed, Rich(), batch=1)
    with pytest.raises(ValueError, match="either"):
        again(fed, Rich(), key="ann")
    with pytest.raises(ValueError, match="follow each other"):
        again(fed, Rich(), key="ann", batches=[1, 3])
    grouped = fed.source().groupBy("key").agg(F.sum("value").alias("value"))
    other = keystate.keyed(grouped, "key").process(lambda row, ctx: None, "x int")
    with pytest.raises(CheckpointError, match="another one with state, Aggregate") as error:
        keystate.replay(other, checkpoint, key="ann", batch=1, operator=0)
    assert error.value.code == "KEYSTATE_CANNOT_REPLAY"
    table = keystate.keyed(spark.createDataFrame([("ann", 1)], "key string, n int"), "key")
    joined = keystate.keyed(fed.source(), "key").connect(table).process(Joins(), "x int")
    with pytest.raises(CheckpointError, match="is a batch DataFrame") as error:
        keystate.replay(joined, checkpoint, key="ann", batch=1)
    assert error.value.code == "KEYSTATE_CANNOT_REPLAY"
    upper = keystate.keyed(fed.source(), F.upper("key")).process(lambda row, ctx: None, "x int")
    with pytest.raises(CheckpointError, match="is an expression"):
        keystate.replay(upper, checkpoint, key="ann", batch=1)


def test_windows_and_a_key_of_two_columns(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream("key string, part int, value long, at timestamp")

    def build(df: Any) -> Any:
        rows = df.withWatermark("at", "1 second").where("value > 0")
        windows = keystate.keyed(rows, "key", "part").window(
            TumblingEventTimeWindows.of(Time.seconds(5))
        )
        return windows.reduce(lambda a, b: (a.key, a.part, a.value + b.value, a.at))

    fed.feed(
        [("ann", 1, 3, at(1)), ("ann", 2, 4, at(1)), ("ann", 1, 5, at(2)), ("ann", 1, 0, at(3))],
        [("ann", 1, 7, at(11)), ("ann", 1, 9, at(4))],
        [("ann", 1, 8, at(30))],
    )
    query = build(fed.source())
    emitted = fed.micro_batches(query)
    for batch in range(len(emitted)):
        made = keystate.replay(query, str(fed.checkpoint), key=("ann", 1), batch=batch)
        assert made.same, str(made)
        main = [row for step in made for row in step.emitted]
        assert main == [row for row in emitted[batch] if row.part == 1]
    for path in fed._input.glob("*.parquet"):
        path.unlink()
    with pytest.raises(CheckpointError, match=r"000000\.parquet, which is gone") as error:
        keystate.replay(query, str(fed.checkpoint), key=("ann", 1), batch=0)
    assert error.value.code == "KEYSTATE_CANNOT_REPLAY"


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(1000),
        SlidingEventTimeWindows.of(2000, 1000),
        EventTimeSessionWindows.with_gap(1000),
    ],
    ids=["tumbling", "sliding", "sessions"],
)
@pytest.mark.parametrize("way", ["aggregate", "reduce", "apply", "count"])
def test_windows_of_rows_out_of_order(assigner: Any, way: str, stream: Callable[..., Any]) -> None:
    """A query has rows in messages, a replay one by one: their timers are not the same."""

    def build(df: Any) -> Any:
        rows = keystate.keyed(df.withWatermark("at", "1 second"), "key")
        windows = rows.window(assigner).allowed_lateness(0)
        if way == "aggregate":
            return windows.aggregate(Sum(), "long", "total long")
        if way == "apply":
            return windows.apply(Summed(), "key string, value long")
        if way == "count":
            windows = windows.trigger(CountTrigger.of(2))
        return windows.reduce(lambda a, b: (a.key, a.value + b.value, a.at))

    fed = stream("key string, value long, at timestamp")
    # Rows of later windows first; some windows begin and end in one micro-batch.
    for shift in range(4):
        seconds = [5.5, 1.5, 3.2, 0.5, 9.5]
        fed.feed([("ann", i, at(2 * shift + second)) for i, second in enumerate(seconds)])
    fed.run(build)
    for batch in range(4):
        made = keystate.replay(build(fed.source()), str(fed.checkpoint), batch=batch, key="ann")
        assert made.same, str(made)


class Summed(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, sum(row.value for row in inputs)


def test_broadcast_state(spark: Any, stream_class: Any, tmp_path: Path) -> None:
    rows = stream_class(spark, tmp_path / "rows", "key string, value long, currency string")
    rates = stream_class(spark, tmp_path / "rates", "currency string, rate long")

    def build(fn: Any) -> Any:
        return (
            keystate.keyed(rows.source(), "key")
            .connect(keystate.broadcast(rates.source(), RATES))
            .process(fn, "key string, value long")
        )

    rows.feed(
        [("ann", 1, "EUR"), ("bob", 1, "USD")],
        [("ann", 2, "EUR"), ("bob", 2, "USD")],
        [("ann", 3, "EUR"), ("ann", 4, "USD")],
    )
    rates.feed([("EUR", 10)], [("USD", 20)], [("GBP", 0), ("EUR", 30)])
    emitted = rows.micro_batches(build(Paid()))
    assert sorted(map(tuple, emitted[1])) == [("ann", 30), ("bob", 41)]
    checkpoint = str(rows.checkpoint)
    for batch in range(3):
        made = keystate.replay(build(Paid()), checkpoint, key="ann", batch=batch)
        assert made.same, str(made)
        assert [row for step in made for row in step.emitted] == [
            row for row in emitted[batch] if row.key == "ann"
        ]
    known = spark.table(f"keystate.`{checkpoint}`.rates").orderBy("user_map_key").collect()
    assert known == [("EUR", 30), ("GBP", 0), ("USD", 20)]
    # The elements took what she had, before the rows.
    assert made[0].what() == "broadcast elements" and made[0].before == {"sum": 30}
    assert made[0].after == {} and made.to_df().first().row is None
    everyone = keystate.replay(build(Paid(more=1)), checkpoint, batch=1)
    assert set(everyone) == set(everyone.differences) == {"ann", "bob"}
    with pytest.raises(DeclarationError, match="one input or two with keys"):
        made.as_test(str(tmp_path / "test_ann.py"))


@pytest.mark.parametrize("way", ["new", "created"])
def test_initial_state(way: str, spark: Any, stream: Callable[..., Any], tmp_path: Path) -> None:
    fed = stream("key string, value long")
    opened = tmp_path / "opened"
    rows = [(key, part) for key in ("ann", "bob") for part in (100, 20)] + [("dee", 7)]
    spark.createDataFrame(rows, "name string, balance long").write.parquet(str(opened))
    table = keystate.keyed(spark.read.parquet(str(opened)), "name", order_by="balance")
    query = keystate.keyed(fed.source(), "key", order_by="value").process(
        Opened(), "key string, total long", initial_state=table
    )
    first = 0
    if way == "created":  # the first batch of the query is not that of the checkpoint
        known = spark.createDataFrame([("ann", 1000), ("cem", 5)], "key string, value long")
        first = 1
        keystate.admin.create(
            str(fed.checkpoint), Opened(), key="key string", states={"total": known}, partitions=2
        )
    fed.feed([("ann", 1), ("ann", 2), ("cem", 3)], [("ann", 4), ("bob", 5)])
    emitted = fed.micro_batches(query)
    for i, of_batch in enumerate(emitted):
        made = keystate.replay(query, str(fed.checkpoint), batch=first + i)
        assert made.same, str(made)
        assert set(made) == ({"ann", "bob", "cem", "dee"} if i == 0 else {"ann", "bob"})
        assert sorted(row for one in made.values() for step in one for row in step.emitted) == (
            sorted(of_batch)
        )
    made = keystate.replay(query, str(fed.checkpoint), key="ann", batches=[first, first + 1])
    assert made.same, str(made)
    assert [(step.input, step.row[1]) for step in made] == [
        (1, 20),
        (1, 100),
        (0, 1),
        (0, 2),
        (0, 4),
    ]
    for file in opened.iterdir():
        file.unlink()
    assert keystate.replay(query, str(fed.checkpoint), key="ann", batch=first + 1).same
    with pytest.raises(CheckpointError, match=f"which batch {first} took in, can't be") as error:
        keystate.replay(query, str(fed.checkpoint), key="ann", batch=first)
    assert error.value.code == "KEYSTATE_CANNOT_REPLAY"


class Numbers(SourceFunction):
    def run(self, ctx: Any) -> None:
        for number in range(20):
            ctx.collect((number % 3, number))

    def cancel(self) -> None:
        pass


def test_sources_whose_rows_are_made_by_time(
    spark: Any, tmp_path: Path, running: list[Any]
) -> None:
    """Their rows follow from the offsets, of one with the time when the query first began."""
    by_second = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    by_batch = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 6).load()
    rows = by_second.selectExpr("concat('s', value % 3) AS key", "value").unionAll(
        by_batch.selectExpr("concat('b', value % 3) AS key", "value")
    )
    query = keystate.keyed(rows, "key", order_by="value").process(Totals(), "key string, n long")
    emitted: dict[int, list[Row]] = {}
    writer = query.writeStream.foreachBatch(lambda df, batch: emitted.update({batch: df.collect()}))
    writer = writer.option("checkpointLocation", str(tmp_path / "query"))
    running.append(writer.trigger(processingTime="300 milliseconds").start())

    def with_seconds() -> list[int]:
        return [batch for batch, found in emitted.items() if any(r.key == "s1" for r in found)]

    wait_for(running[0], lambda: len(with_seconds()) >= 2)
    batches = with_seconds()[:2]
    wait_for(running[0], lambda: max(emitted) > batches[1])  # so the others are committed
    running[0].stop()
    for batch in batches:
        for key in ("s1", "b2"):
            made = keystate.replay(query, str(tmp_path / "query"), key=key, batch=batch)
            assert made.same and made.committed, str(made)
            main = [row for step in made for row in step.emitted]
            assert main == [row for row in emitted[batch] if row.key == key] != []


def test_a_batch_that_fails_of_a_source_of_keystates(
    spark: Any, tmp_path: Path, running: list[Any]
) -> None:
    numbers = keystate.source(spark, Numbers(), "key int, value long", max_rows_per_batch=10)

    def build(fn: Any) -> Any:
        return keystate.keyed(numbers, "key").process(fn, "key int, total long")

    writer = build(Totals(fails_at=13)).writeStream.format("noop")
    running.append(writer.option("checkpointLocation", str(tmp_path / "query")).start())
    with pytest.raises(StreamingQueryException, match="13 is too much"):
        running[0].awaitTermination(120)
    batch = max(int(path.name) for path in (tmp_path / "query" / "offsets").glob("[0-9]*"))
    assert batch > 0
    with pytest.raises(FunctionError, match="13 is too much"):
        keystate.replay(build(Totals(fails_at=13)), str(tmp_path / "query"), key=1, batch=batch)
    made = keystate.replay(build(Totals()), str(tmp_path / "query"), key=1, batch=batch)
    assert not made.committed
    assert made[-1].after == {"total": sum(range(1, made[-1].row.value + 1, 3))}
    assert "The batch is not committed" in str(made)


def test_a_test_and_a_debugger(
    spark: Any, stream: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = stream("key string, value long")

    def build(df: Any) -> Any:
        return keystate.keyed(df, "key").process(Totals(), "key string, total long")

    fed.feed([("ann", 3), ("bob", 1)], [("ann", 7), ("ann", 5), ("bob", 2)])
    fed.run(build)
    query = build(fed.source())
    made = keystate.replay(query, str(fed.checkpoint), key="ann", batch=1)
    totals = [(step.before["total"], step.after["total"]) for step in made]
    assert made.same and sorted(totals)[0][0] == 3 and sorted(totals)[-1][1] == 15
    # A clock of the function's own is told, with its place.
    stamped = keystate.keyed(fed.source(), "key").process(Stamped(), "key string, total long")
    told = keystate.replay(stamped, str(fed.checkpoint), batch=1)
    (call,) = told["ann"].unrecorded
    assert re.fullmatch(r"datetime\.now\(\) in replayed\.py, line \d+", call)
    assert told.same and told.verdict().endswith(f"which are others now:\n  {call}")
    assert made.unrecorded == []
    path = tmp_path / "test_ann.py"
    made.as_test(str(path))
    written = path.read_text()
    assert "harness.set_state(key, 'total', 3)" in written
    ran(written)
    with pytest.raises(AssertionError):
        ran(written.replace("== 15", "== 16"))
    # What breakpoint() calls where pytest has not put its own in its place, with another terminal.
    terminal, shown = io.StringIO("p 'at', row.value, self.total.value()\nc\n"), io.StringIO()

    def stop() -> None:
        pdb.Pdb(stdin=terminal, stdout=shown).set_trace(sys._getframe(1))

    monkeypatch.setattr(sys, "breakpointhook", stop)
    monkeypatch.setenv("STOP_AT", "5")
    assert keystate.replay(query, str(fed.checkpoint), key="ann", batch=1).same
    before = next(step.before["total"] for step in made if step.row.value == 5)
    assert "replayed.py" in shown.getvalue() and f"('at', 5, {before})" in shown.getvalue()


def test_nan_is_nan(spark: Any, stream: Callable[..., Any], tmp_path: Path) -> None:
    """A value that does not equal itself is no difference, wherever it is."""
    fed = stream("key string, value long")

    def build(rows: Any, more: int = 0) -> Any:
        return keystate.keyed(rows, "key").process(NotNumbers(more), "key string, x double")

    fed.feed([("ann", 1), ("bob", 1)], [("ann", 3), ("ann", 2)], [("ann", 3)], [("ann", 3)])
    fed.run(build)
    checkpoint = str(fed.checkpoint)
    query = build(fed.source())
    for batch in range(4):
        made, again = (keystate.replay(query, checkpoint, key="ann", batch=batch) for _ in range(2))
        assert made.same, made.verdict()
        assert made.first_difference(again) is None
        assert keystate.replay(query, checkpoint, batch=batch).same
        path = tmp_path / f"test_ann_{batch}.py"
        made.as_test(str(path))
        written = path.read_text()
        ran(written, batch)
        with pytest.raises(AssertionError):
            ran(written.replace("(harness.output(), [", "(harness.output(), [5, "), batch)
    # Only what the last batch has changed is told.
    *_, last = keystate.admin.history(checkpoint, key="ann", spark=spark)
    assert [one.state for one in last.changes] == ["all"]
    (step,) = made
    assert [line.partition(":")[0] for line in step.changes()] == ["all"]
    assert str(made).startswith("Key 'ann', batch 3: 1 step\n")
    other = keystate.replay(build(fed.source(), more=1), checkpoint, key="ann", batch=1)
    assert [one.state for one in other.differences] == ["all"]


def ran(written: str, batch: int = 1) -> None:
    """Runs a test that was written."""
    names: dict[str, Any] = {}
    exec(written, names)
    names[f"test_batch_{batch}"]()
