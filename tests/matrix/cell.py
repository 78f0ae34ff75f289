"""Runs features in a shape, over a restart, and tells what differs from their models."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from keystate import admin
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.matrix.feature import Feature
from tests.matrix.flow import INPUT, OUTPUT, Batch, Flow, Row
from tests.matrix.shapes import Network, Shape

ON_LIMIT = "spark.keystate.state.onLimit"
REUSE = "spark.python.worker.reuse"
#: Between two micro-batches, in ms.
APART = 100_000
#: A row this early is late.
EARLY = 1000


@dataclass
class Setting:
    """How a cell is run.

    Attributes:
        sink: ``foreachBatch``, or ``parquet``, which has a log.
        backends: of each start.
        batches: how many micro-batches each start has.
        conf: other settings.
    """

    sink: str = "foreachBatch"
    backends: tuple[str, ...] = ("hashmap", "rocksdb")
    batches: int = 2
    rows: int = 9
    seed: int = 0
    partitions: tuple[int, ...] = ()
    conf: dict[str, str] = field(default_factory=dict)


def differences(
    spark: SparkSession, stream: Any, features: list[Feature], shape: Shape, setting: Setting
) -> list[str]:
    """What is wrong, by feature.

    Args:
        stream: what was made by the fixture ``stream`` for `INPUT`.
    """
    return Cell(spark, stream, features, shape, setting).run()


class Cell:
    def __init__(
        self,
        spark: SparkSession,
        stream: Any,
        features: list[Feature],
        shape: Shape,
        setting: Setting,
    ) -> None:
        self._spark, self._stream, self._shape, self._setting = spark, stream, shape, setting
        self._features = features
        self._folder = Path(stream.checkpoint).parent
        self._net = Network()
        self._rng = random.Random(f"rows {setting.seed}")
        self._batches: list[Batch] = []
        self._emitted: dict[int, list[Any]] = {}
        self._wrong: list[str] = []

    def run(self) -> list[str]:
        partitions = self._setting.partitions or self._shape.partitions
        wanted: list[Row] = []
        counted: Counter[str] = Counter()
        for start in range(2):
            fed = [self._batch() for _ in range(self._setting.batches)]
            self._stream.feed(*([_given(row) for row in batch.rows] for batch in fed))
            count = partitions[min(start, len(partitions) - 1)]
            if start and any(feature.limited for feature in self._features):
                self._refused(start, count)
                self._net.limits.clear()
            if start and self._shape.repeats:
                self._repeated(start, count)
                count = partitions[-1]
            progress = self._start(start, count)
            step = self._flow.step
            for batch in fed:
                wanted += step(batch)
            counted = self._counters(progress, counted)
            self._limit()
        found = self._results()
        self._compare(wanted, found)
        self._lists()
        return self._wrong

    # -- input ---------------------------------------------------------------------------------

    def _batch(self) -> Batch:
        """A micro-batch of rows in order, and from the third one on a late one."""
        number, rng = len(self._batches), self._rng
        base = APART * (number + 1)
        rows = [
            Row(rng.choice("abcdefg"), 100 * number + n, rng.randrange(30), base + 100 * n)
            for n in range(self._setting.rows)
        ]
        if number > 1:
            rows.append(Row("a", 100 * number + 99, rng.randrange(30), EARLY))
        marks = [0, *(max(row.at or 0 for row in each.rows) for each in self._batches)]
        self._batches.append(Batch(rows, marks[-1], marks[-2] if number else 0))
        return self._batches[-1]

    # -- starts --------------------------------------------------------------------------------

    def _start(
        self, start: int, partitions: int, fails: bool = False, refused: bool = False
    ) -> list[Any]:
        backend = self._setting.backends[start % len(self._setting.backends)]
        conf = self._setting.conf | {
            "spark.sql.shuffle.partitions": str(partitions),
            "spark.keystate.backend": backend,
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            ON_LIMIT: "fail" if self._net.limits else "warn",
        }
        with _set(self._spark, conf), _workers(self._spark, self._shape.reuse):
            source = Flow(self._stream.source(), lambda batch: batch.rows)
            self._net.begin(self._spark, source, self._folder, start)
            self._flow = self._shape.build(self._net, self._features)
            query = self._writer(self._flow.df, fails, refused).start()
            try:
                query.awaitTermination()
            finally:
                query.stop()
            return list(query.recentProgress)

    def _writer(self, df: DataFrame, fails: bool, refused: bool) -> Any:
        writer = df.writeStream.option("checkpointLocation", str(self._stream.checkpoint))
        writer = writer.trigger(availableNow=True).outputMode("append")
        # Spark skips a micro-batch that its file sink has: its rows move no watermark, and with
        # checkpoint format 2 Spark fails.
        to_files = not fails and not refused and not self._shape.repeats
        if self._setting.sink == "parquet" and to_files:
            return writer.format("parquet").option("path", str(self._folder / "out"))

        def take(rows: DataFrame, number: int) -> None:
            self._emitted[number] = rows.collect()
            if fails:
                raise ConnectionError("the sink fails")

        return writer.foreachBatch(take)

    def _refused(self, start: int, partitions: int) -> None:
        """A limit ends the query, with what there is and what there may be."""
        try:
            self._start(start, partitions, refused=True)
        except StreamingQueryException as error:
            said = str(error)
            if not any(
                f"State 'pages{number}'" in said and f" of at most {limit} entries" in said
                and "KEYSTATE_STATE_LIMIT" in said
                for number, limit in self._net.limits.items()
            ):  # fmt: skip
                self._wrong.append(f"limits: {said[:600]}")
        else:
            self._wrong.append("limits: no error")

    def _repeated(self, start: int, partitions: int) -> None:
        """The first micro-batch fails in its sink. Run again, it must emit the same rows."""
        first = len(self._batches) - self._setting.batches
        try:
            self._start(start, partitions, fails=True)
        except StreamingQueryException as error:
            assert "the sink fails" in str(error), error
        self._before = first, self._emitted.pop(first)

    def _results(self) -> list[Any]:
        if self._setting.sink == "parquet" and not self._shape.repeats:
            return self._spark.read.schema(OUTPUT).parquet(str(self._folder / "out")).collect()
        if self._shape.repeats:
            first, before = self._before
            again = Counter(_shown(row, row.id) for row in self._emitted[first])
            once = Counter(_shown(row, row.id) for row in before)
            self._differ("run again", once, again)
        return [row for number in sorted(self._emitted) for row in self._emitted[number]]

    # -- what is compared ----------------------------------------------------------------------

    def _compare(self, wanted: list[Row], found: list[Any]) -> None:
        self._differ("", Counter(map(_shown, wanted)), Counter(map(_shown, found)))
        ids = Counter(row.id for row in found if row.id is not None)
        # A letter that two branches have has one id for each operator.
        if any(count > 1 for count in ids.values()) and "branch" not in self._shape.name:
            self._wrong.append(f"dead letters: two of one id, {ids.most_common(1)}")

    def _differ(self, about: str, wanted: Counter[Any], found: Counter[Any]) -> None:
        missing, more = wanted - found, found - wanted
        for feature in sorted({each[0] for each in (missing | more)}):
            a = sorted((each for each in missing if each[0] == feature), key=repr)
            b = sorted((each for each in more if each[0] == feature), key=repr)
            self._wrong.append(
                f"{feature} {about}: {len(a)} missing as {a[:3]}, {len(b)} wrong as {b[:3]}"
            )

    def _counters(self, progress: list[Any], before: Counter[str]) -> Counter[str]:
        """What each function counted in the last start, failed attempts left out."""
        told: Counter[str] = Counter()
        for each in progress:
            for operator in each.stateOperators:
                told.update(dict(operator.customMetrics))
        now: Counter[str] = Counter()
        for number, (_, model) in enumerate(self._net.models):
            for name, count in model.counters().items():
                now[f"{name}{number}"] = count
                counted, wanted = told[f"{name}{number}"], count - before[f"{name}{number}"]
                if counted != wanted:
                    self._wrong.append(f"counters: {counted} of {wanted}")
        return now

    def _limit(self) -> None:
        """From now on there may be no more entries than there are."""
        for number, (feature, model) in enumerate(self._net.models):
            if feature.limited and number not in self._net.limits:
                self._net.limits[number] = model.rows

    def _lists(self) -> None:
        for number, (_, model) in enumerate(self._net.models):
            for name, wanted in model.lists().items():
                read = admin.read_state(
                    self._spark, str(self._stream.checkpoint), state=f"{name}{number}"
                )
                found = sorted(row.list_element for row in read.select("list_element").collect())
                found = [sum(found)] if name == "counts" else found
                if found != wanted:
                    self._wrong.append(f"list {name}: found {found}, wanted {wanted}")


def _given(row: Row) -> tuple[Any, ...]:
    assert row.at is not None
    return row.k, row.i, row.x, datetime.fromtimestamp(row.at / 1000, timezone.utc)


def _shown(row: Any, *more: Any) -> tuple[Any, ...]:
    return row.feature, row.k, row.i, row.what, *more


@contextmanager
def _set(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in conf}
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextmanager
def _workers(spark: SparkSession, reuse: bool) -> Iterator[None]:
    """The setting belongs to the process: tasks read it in the environment of their executor."""
    if reuse:
        yield
        return
    conf = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().conf()  # type: ignore[union-attr]
    conf.set(REUSE, "false")
    try:
        yield
    finally:
        conf.set(REUSE, "true")


__all__ = ["INPUT", "Setting", "differences"]
