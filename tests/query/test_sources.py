"""Stateful sources: rows, offsets, limits, errors and restarts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointedFunction,
    CheckpointListener,
    ListStateDescriptor,
    RichParallelSourceFunction,
    SourceFunction,
    admin,
)
from keystate._types.waiting import wait_until
from keystate.errors import CheckpointError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from examples.counter_source import CounterSource


class Numbers(SourceFunction, CheckpointedFunction):
    """Counts to a number, with its offset in a list state."""

    def __init__(self, until: int, fail_at: int = -1, pause: float = 0) -> None:
        self.until, self.fail_at, self.pause = until, fail_at, pause
        self.next, self.running = 0, True

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.offsets = store.get_list_state(ListStateDescriptor("offset", "long"))
        for offset in self.offsets.get():
            assert context.is_restored()
            self.next = offset

    def snapshot_state(self, context: Any) -> None:
        assert context.get_checkpoint_id() > 0
        self.offsets.update([self.next])

    def run(self, ctx: Any) -> None:
        while self.running and self.next < self.until:
            with ctx.get_checkpoint_lock():
                if self.next == self.fail_at:
                    raise ValueError(f"no number {self.next}")
                ctx.collect(self.next)
                self.next += 1
            if self.pause:
                time.sleep(self.pause)

    def cancel(self) -> None:
        self.running = False


class Run:
    """Runs a query over a source again and again; collects what each micro-batch has."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = folder / "checkpoint"
        self.batches: dict[int, list[Any]] = {}

    def start(self, df: DataFrame, **trigger: Any) -> Any:
        def take(batch: DataFrame, number: int) -> None:
            self.batches[number] = [row[0] for row in batch.collect()]

        return (
            df.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def to_end(self, df: DataFrame) -> list[Any]:
        self.batches = {}
        self.start(df).awaitTermination()
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    def log(self) -> list[int]:
        """The batches of the source's files."""
        return sorted(int(path.name.split("_")[0]) for path in self.files())

    def files(self) -> list[Path]:
        return sorted((self.checkpoint / "sources/0").glob("[0-9]*_*.source"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.turns
def test_bounded_source_ends(spark: Any, run: Run) -> None:
    df = keystate.source(spark, Numbers(250), "n long", max_rows_per_batch=100)
    assert run.to_end(df) == list(range(250))
    assert [len(rows) for rows in run.batches.values()] == [100, 100, 50]
    assert run.log() == [2, 3], "Spark has not told yet that batch 3 counts"
    # A restart goes on from the offset.
    more = keystate.source(spark, Numbers(260), "n long")
    assert run.to_end(more) == list(range(250, 260))
    assert run.to_end(more) == []


@pytest.mark.turns
def test_list_checkpointed_parallel(spark: Any, run: Run) -> None:
    def df(until: int) -> DataFrame:
        return keystate.source(
            spark, CounterSource(until), "n long", parallelism=3, max_rows_per_batch=30
        )

    first = run.to_end(df(100))
    assert sorted(first) == list(range(100))
    assert sorted(run.to_end(df(150))) == list(range(100, 150))


@pytest.mark.turns
def test_pending_batch_has_the_same_rows(spark: Any, run: Run) -> None:
    """The rows of a batch that failed are those of its replay."""
    df = keystate.source(spark, Numbers(50), "n long", max_rows_per_batch=20)
    seen: list[list[int]] = []

    def fail(batch: DataFrame, number: int) -> None:
        seen.append([row[0] for row in batch.collect()])
        if number == 1:
            raise RuntimeError("sink failed")

    with pytest.raises(StreamingQueryException, match="sink failed"):
        query = df.writeStream.foreachBatch(fail).option("checkpointLocation", str(run.checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()
    assert run.to_end(df) == list(range(20, 50))
    assert run.batches[1] == seen[1] == list(range(20, 40))


def begin_and_fail(df: DataFrame, run: Run) -> None:
    """Leaves the first micro-batch pending."""

    def fail(batch: DataFrame, number: int) -> None:
        raise RuntimeError("sink failed")

    with pytest.raises(StreamingQueryException, match="sink failed"):
        query = df.writeStream.foreachBatch(fail).option("checkpointLocation", str(run.checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()


class Readings(Numbers):
    """Its rows name their columns."""

    def run(self, ctx: Any) -> None:
        while self.running and self.next < self.until:
            with ctx.get_checkpoint_lock():
                ctx.collect({"at": self.next, "n": 1000 + self.next})
                self.next += 1


def test_pending_batch_of_a_release_with_other_columns(spark: Any, run: Run) -> None:
    """It is read by the columns' names, or not at all."""
    begin_and_fail(keystate.source(spark, Readings(3), "at long, n long"), run)
    other = keystate.source(spark, Readings(3), "n long, at int")
    with pytest.raises(StreamingQueryException) as error:
        run.to_end(other)
    told = str(error.value)
    assert "[KEYSTATE_SOURCE_COLUMNS]" in told and "/sources/0/1_" in told
    assert "(at BIGINT,n BIGINT), but the source 'Readings' now has (n BIGINT,at INT)" in told
    swapped = keystate.source(spark, Readings(3), "n long, at long")
    rows = run.to_end(swapped.selectExpr("struct(n, at)"))
    assert [tuple(row) for row in rows] == [(1000, 0), (1001, 1), (1002, 2)]


class Gaps(Numbers):
    """Its rows have nulls."""

    def run(self, ctx: Any) -> None:
        while self.running and self.next < self.until:
            with ctx.get_checkpoint_lock():
                ctx.collect({"n": self.next if self.next % 2 else None})
                self.next += 1


def test_pending_batch_has_nulls_where_a_new_release_has_none(run: Run, spark: Any) -> None:
    begin_and_fail(keystate.source(spark, Gaps(4), "n long"), run)
    rows = run.to_end(keystate.source(spark, Gaps(4), "n long not null"))
    assert rows == [None, 1, None, 3]


@pytest.mark.turns
def test_file_without_offset_is_not_read(spark: Any, run: Run) -> None:
    """The driver died after the source's file was written and before Spark's offset log was.

    The function gives its rows again, from the state before. The file could be another driver's.
    """
    df = keystate.source(spark, Numbers(50), "n long", max_rows_per_batch=20)
    run.to_end(df)
    for log in ("offsets", "commits"):
        (run.checkpoint / log / "2").unlink()
        (run.checkpoint / log / ".2.crc").unlink(missing_ok=True)
    second, third = run.files()
    away = [path.rename(run.checkpoint / path.name) for path in (second, third)]
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_MISSING_FILE.*2_.*\.source"):
        run.to_end(df)  # nothing is made up for the state that is gone
    for path, name in zip(away, (second, third), strict=True):
        path.rename(name)
    third.write_bytes(b"whatever it is")
    assert run.to_end(df) == list(range(40, 50))
    assert third.exists(), "what no offset names goes when its batch is over"
    longer = keystate.source(spark, Numbers(60), "n long", max_rows_per_batch=20)
    assert run.to_end(longer) == list(range(50, 60))
    assert not third.exists()


def test_no_savepoint_without_the_file_to_go_on_from(spark: Any, run: Run, tmp_path: Path) -> None:
    df = keystate.source(spark, Numbers(50), "n long", max_rows_per_batch=20)
    run.to_end(df)
    checkpoint, target = str(run.checkpoint), tmp_path / "savepoint"
    second, third = run.files()
    second.unlink()
    with pytest.raises(CheckpointError, match=f"KEYSTATE_MISSING_FILE.*batch 0.*{second.name}"):
        admin.savepoint(checkpoint, str(target), version=1)  # which would begin with batch 1
    assert not target.exists() and admin.verify(checkpoint) == []
    assert admin.savepoint(checkpoint, str(target)) == 2
    third.unlink()
    (problem,) = admin.verify(checkpoint)
    assert third.name in problem and "does not exist" in problem
    with pytest.raises(CheckpointError, match=f"KEYSTATE_MISSING_FILE.*batch 2.*{third.name}"):
        admin.savepoint(checkpoint, str(tmp_path / "other"))
    run.checkpoint = target
    assert admin.verify(str(target)) == []
    assert run.to_end(keystate.source(spark, Numbers(60), "n long")) == list(range(50, 60))


def test_savepoints_while_files_come_and_go(spark: Any, run: Run, tmp_path: Path) -> None:
    """The log of another source takes long to list, so the query goes on meanwhile."""
    df = keystate.source(spark, Numbers(10**9, pause=0.002), "n long", max_batch_duration=0.01)
    query = df.writeStream.format("noop").option("checkpointLocation", str(run.checkpoint)).start()
    try:
        wait_until(
            lambda: query.lastProgress is not None and query.lastProgress.batchId > 3,
            "five micro-batches",
        )
        other = run.checkpoint / "sources" / "1"
        other.mkdir()
        for number in range(2000):
            (other / f"{number}").write_text("v1")
        for number in range(4):
            saved = tmp_path / f"saved{number}"
            admin.savepoint(str(run.checkpoint), str(saved))
            newest = max((saved / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
            offset = json.loads(newest.read_text().splitlines()[2])
            name = f"{offset['batch']}_{offset['id']}.source"
            assert (saved / "sources" / "0" / name).exists()
            assert admin.verify(str(saved)) == []
    finally:
        query.stop()


def test_error_in_run(spark: Any, run: Run) -> None:
    broken = keystate.source(spark, Numbers(100, fail_at=60), "n long", max_rows_per_batch=20)
    with pytest.raises(StreamingQueryException) as error:
        run.to_end(broken)
    message = str(error.value)
    assert "ValueError: no number 60" in message
    assert 'raise ValueError(f"no number {self.next}")' in message
    got = [row for batch in sorted(run.batches) for row in run.batches[batch]]
    assert got == list(range(len(got)))
    fixed = keystate.source(spark, Numbers(100), "n long")
    assert got + run.to_end(fixed) == list(range(100))


def test_wrong_row(spark: Any, run: Run) -> None:
    df = keystate.source(spark, Numbers(3), "n string")
    with pytest.raises(StreamingQueryException, match=r"source Numbers .* expected string"):
        run.to_end(df)


def test_wrong_state(spark: Any, run: Run) -> None:
    class Wrong(Numbers):
        def snapshot_state(self, context: Any) -> None:
            self.offsets.update(["here"])

    df = keystate.source(spark, Wrong(3), "n long")
    with pytest.raises(StreamingQueryException, match="state 'offset': expected bigint"):
        run.to_end(df)


def test_changed_state_type(spark: Any, run: Run) -> None:
    run.to_end(keystate.source(spark, Numbers(3), "n long"))

    class Other(Numbers):
        def initialize_state(self, context: Any) -> None:
            store = context.get_operator_state_store()
            self.offsets = store.get_list_state(ListStateDescriptor("offset", "string"))

    df = keystate.source(spark, Other(3), "n long")
    with pytest.raises(
        StreamingQueryException,
        match="state 'offset' is bigint in the checkpoint and string in the function",
    ):
        run.to_end(df)


class Endless(RichParallelSourceFunction):
    """Never returns by itself, and tells a folder what happens to it."""

    def __init__(self, folder: Path, idle_after: int = 0) -> None:
        self.folder, self.idle_after = str(folder), idle_after
        self.stopped = False

    def open(self, ctx: Any) -> None:
        self.index = ctx.get_index_of_this_subtask()
        self.tell("open")

    def run(self, ctx: Any) -> None:
        emitted = 0
        while not self.stopped:
            if self.idle_after and emitted == self.idle_after:
                ctx.mark_as_temporarily_idle()
                time.sleep(0.01)
            else:
                ctx.collect(emitted)
                emitted += 1

    def cancel(self) -> None:
        self.tell("cancel")
        self.stopped = True

    def close(self) -> None:
        self.tell("close")

    def tell(self, what: str) -> None:
        Path(self.folder, f"{what}{self.index}").touch()


def test_cancelled_when_the_query_stops(spark: Any, run: Run, tmp_path: Path) -> None:
    df = keystate.source(spark, Endless(tmp_path), "n long", parallelism=2, max_rows_per_batch=10)
    query = run.start(df, processingTime="0 seconds")
    wait_until(lambda: len(run.batches) > 2, "three micro-batches")
    query.stop()
    assert query.exception() is None
    assert all(len(rows) <= 10 for rows in run.batches.values())
    told = ["cancel0", "cancel1", "close0", "close1", "open0", "open1"]
    wait_until(lambda: sorted(p.name for p in tmp_path.glob("*[01]")) == told, "files", 20)


@pytest.mark.turns
def test_available_now_ends_with_an_endless_source(spark: Any, run: Run, tmp_path: Path) -> None:
    df = keystate.source(
        spark, Endless(tmp_path), "n long", max_rows_per_batch=10, available_now_rows=35
    )
    assert run.to_end(df) == list(range(40))
    slow = keystate.source(
        spark, Endless(tmp_path), "n long", max_rows_per_batch=10, available_now_duration=0.5
    )
    began = time.monotonic()
    assert run.to_end(slow)
    assert time.monotonic() - began < 60


def test_idle_source_ends_available_now(spark: Any, run: Run, tmp_path: Path) -> None:
    df = keystate.source(spark, Endless(tmp_path, idle_after=7), "n long")
    assert run.to_end(df) == list(range(7))


def test_rows_flow_with_the_default_trigger(spark: Any, run: Run) -> None:
    df = keystate.source(spark, Numbers(30, pause=0.02), "n long", max_batch_duration=0.05)
    query = run.start(df, processingTime="0 seconds")
    try:
        wait_until(lambda: sum(map(len, run.batches.values())) == 30, "30 rows")
    finally:
        query.stop()
    assert [n for batch in sorted(run.batches) for n in run.batches[batch]] == list(range(30))
    assert len(run.batches) > 1


class Shards(RichParallelSourceFunction, CheckpointedFunction):
    """Shards with offsets, dealt out over the instances; a union state tells who was there."""

    def __init__(self, until: int) -> None:
        self.until = until
        self.offsets: dict[int, int] = {}
        self.known: list[str] = []

    def open(self, ctx: Any) -> None:
        self.index, self.of = (
            ctx.get_index_of_this_subtask(),
            ctx.get_number_of_parallel_subtasks(),
        )
        if not self.offsets and not self.known:
            self.offsets = {shard: 0 for shard in range(7) if shard % self.of == self.index}

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        shards = ListStateDescriptor("shards", "shard int, offset long")
        self.shards = store.get_list_state(shards)
        self.union = store.get_union_list_state(ListStateDescriptor("instances", "string"))
        self.offsets = {row.shard: row.offset for row in self.shards.get()}
        self.known = list(self.union.get())

    def snapshot_state(self, context: Any) -> None:
        self.shards.update(self.offsets.items())
        self.union.update([f"{self.index} of {self.of}"])

    def run(self, ctx: Any) -> None:
        with ctx.get_checkpoint_lock():
            ctx.collect((-1, self.index, json.dumps([sorted(self.offsets), sorted(self.known)])))
        for shard in sorted(self.offsets):
            while self.offsets[shard] < self.until:
                with ctx.get_checkpoint_lock():
                    ctx.collect((shard, self.offsets[shard], None))
                    self.offsets[shard] += 1

    def cancel(self) -> None:
        self.until = 0


@pytest.mark.turns
def test_another_parallelism(spark: Any, run: Run) -> None:
    """1 to 3, 3 to 1, 1 to 4, 4 to 2: no shard is lost, and none goes to two instances."""
    rows: list[Any] = []
    before = 0

    def take(batch: DataFrame, _: int) -> None:
        rows.extend(batch.collect())

    for turn, parallelism in enumerate([1, 3, 1, 4, 2], 1):
        rows.clear()
        df = keystate.source(
            spark,
            Shards(5 * turn),
            "shard int, number long, had string",
            parallelism=parallelism,
            max_rows_per_batch=12,
        )
        df.writeStream.foreachBatch(take).option("checkpointLocation", str(run.checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()
        had = {row.number: json.loads(row.had) for row in rows if row.shard == -1}
        assert len(had) == parallelism
        sizes = [len(shards) for shards, _ in had.values()]
        assert sum(sizes) == 7 and max(sizes) - min(sizes) <= 1
        for _, known in had.values():
            assert known == [f"{i} of {before}" for i in range(before)]
        data = sorted((row.shard, row.number) for row in rows if row.shard >= 0)
        assert data == [(s, n) for s in range(7) for n in range(5 * (turn - 1), 5 * turn)]
        before = parallelism


class Acknowledging(Numbers, CheckpointListener):
    """Writes down which batches count."""

    def __init__(self, until: int, folder: Path) -> None:
        super().__init__(until)
        self.folder = str(folder)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        Path(self.folder, f"ack{checkpoint_id}").touch()


def test_listener(spark: Any, run: Run, tmp_path: Path) -> None:
    df = keystate.source(spark, Acknowledging(50, tmp_path), "n long", max_rows_per_batch=20)
    run.to_end(df)
    acknowledged = sorted(path.name for path in tmp_path.glob("ack*"))
    assert acknowledged[:2] == ["ack1", "ack2"]
    assert set(acknowledged) <= {f"ack{i}" for i in range(1, 4)}


def test_blocks_stay_together(spark: Any, run: Run) -> None:
    """What one block of the lock collects is in one batch, whatever the limit."""

    class Pairs(SourceFunction):
        def run(self, ctx: Any) -> None:
            for n in range(20):
                with ctx.get_checkpoint_lock():
                    for _ in range(3):
                        with ctx.get_checkpoint_lock():
                            ctx.collect(n)

        def cancel(self) -> None:
            pass

    df = keystate.source(spark, Pairs(), "n long", max_rows_per_batch=4)
    assert run.to_end(df) == [n for n in range(20) for _ in range(3)]
    for rows in run.batches.values():
        assert all(rows.count(n) == 3 for n in rows)


def test_rows_of_every_form(spark: Any, run: Run) -> None:
    class Forms(SourceFunction):
        def run(self, ctx: Any) -> None:
            ctx.collect((1, "tuple"))
            ctx.collect({"s": "dict", "n": 2})
            ctx.collect({"n": 3})

        def cancel(self) -> None:
            pass

    df = keystate.source(spark, Forms(), "n long, s string")
    rows = run.to_end(df.selectExpr("struct(n, s)"))
    assert [tuple(row) for row in rows] == [(1, "tuple"), (2, "dict"), (3, None)]


@pytest.mark.turns
def test_two_sources_in_one_query(spark: Any, run: Run) -> None:
    left = keystate.source(spark, Numbers(30), "n long", max_rows_per_batch=10)
    right = keystate.source(spark, Numbers(5), "n long").selectExpr("n + 1000")
    assert sorted(run.to_end(left.union(right))) == [*range(30), *range(1000, 1005)]


@pytest.mark.turns
def test_damaged_log(spark: Any, run: Run) -> None:
    df = keystate.source(spark, Numbers(30), "n long")
    run.to_end(df)
    path = run.checkpoint / "sources/0" / run.files()[-1].name
    good = path.read_bytes()
    for name, bad in {"checksum": good[:60] + b"?" + good[61:], "short": good[:20]}.items():
        path.write_bytes(bad)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        with pytest.raises(StreamingQueryException, match=f"KEYSTATE_CORRUPT_FILE.*{name}"):
            run.to_end(df)
    path.write_bytes(good)
    assert run.to_end(df) == []


def test_another_source_on_the_checkpoint(spark: Any, run: Run) -> None:
    rate = spark.readStream.format("rate").load().selectExpr("value AS n")
    run.start(rate, availableNow=True).awaitTermination()
    with pytest.raises(StreamingQueryException, match="KEYSTATE_SOURCE_CHANGED"):
        run.to_end(keystate.source(spark, Numbers(3), "n long"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fn": Numbers}, "add \\(\\)"),
        ({"fn": len}, "expected a SourceFunction"),
        ({"parallelism": 2}, "not a ParallelSourceFunction"),
        ({"parallelism": 0}, "at least 1"),
        ({"max_rows_per_batch": 0}, "at least 1"),
        ({"max_batch_duration": 0}, "must be positive"),
        ({"available_now_rows": 0}, "at least 1"),
        ({"schema": "n nothing"}, "is not a type"),
    ],
)
def test_declaration_errors(spark: Any, arguments: dict[str, Any], message: str) -> None:
    given = {"fn": Numbers(1), "schema": "n long", **arguments}
    with pytest.raises(keystate.DeclarationError, match=message):
        keystate.source(spark, given.pop("fn"), given.pop("schema"), **given)


def test_keyed_state_in_a_source(spark: Any, run: Run) -> None:
    class Keyed(Numbers):
        def open(self, ctx: Any) -> None:
            ctx.get_state(keystate.ValueStateDescriptor("v", "long"))

    with pytest.raises(StreamingQueryException, match="a source has no keyed state"):
        run.to_end(keystate.source(spark, Keyed(1), "n long"))
