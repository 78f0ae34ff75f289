"""Every kind of state in one query, and what it should emit.

Run as a script it is the driver that a test kills:
python soak_query.py FOLDER PARTITIONS MASTER SETTINGS

SETTINGS are those of the session, as JSON.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
from keystate import (
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    SourceFunction,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.fault import sessions

KEYS, ROWS, RULES = 20, 200, 40
BROADCAST = MapStateDescriptor("rules", "long", "long")
ROW = "ts timestamp, key long, n long, text string"
EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
CLOSING = -1
_TTL = StateTtlConfig.new_builder(Time.days(1000)).update_ttl_on_read_and_write()


class Counter(SourceFunction, ListCheckpointed[int]):
    """Counts to the number in a file; at its end comes one more row, long after the others.

    Without that row (``closes``) it ends as soon as the file says that there is an end.
    """

    def __init__(self, file: Path, closes: bool) -> None:
        self.file, self.closes = file, closes
        self.next, self.running = 0, True

    def run(self, ctx: Any) -> None:
        until, end = json.loads(self.file.read_text())
        while self.running:
            if self.next % ROWS == 0 or self.next >= until or not self.closes:
                until, end = json.loads(self.file.read_text())
            if end and not self.closes:
                return  # one rule a batch: to the same number it would take a batch for each
            if self.next >= until:
                if end and self.closes:
                    with ctx.get_checkpoint_lock():
                        ctx.collect(CLOSING)
                if end:
                    return
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1

    def cancel(self) -> None:
        self.running = False

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self.next]

    def restore_state(self, state: list[int]) -> None:
        self.next = max(state)


class Tally(KeyedProcessFunction, CheckpointedFunction):
    """Passes rows on, and counts them in operator state."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.own = store.get_list_state(ListStateDescriptor("own", "long"))
        self.all = store.get_union_list_state(ListStateDescriptor("all", "rows long, last long"))
        rows = list(self.all.get())
        # Of all subtasks: every row so far, once.
        total, last = sum(r.rows for r in rows), max((r.last for r in rows), default=-1)
        if total != last + 1:
            raise AssertionError(f"{total} rows were counted when {last} was the last: {rows}")
        self.rows, self.newest = sum(self.own.get()), last

    def snapshot_state(self, context: Any) -> None:
        self.own.update([self.rows])
        self.all.update([(self.rows, self.newest)])

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        if row.n != CLOSING:
            self.rows += 1
            self.newest = max(self.newest, row.n)
        yield row.ts, row.key, row.n


class Soak(KeyedBroadcastProcessFunction):
    """Emits what is in the states; what depends on the batches it only checks."""

    def open(self, ctx: Any) -> None:
        count = ValueStateDescriptor("count", "long", default=0)
        count.enable_time_to_live(_TTL.use_event_time().build())
        kinds = MapStateDescriptor("kinds", "long", "long")
        kinds.enable_time_to_live(_TTL.use_processing_time().build())
        self.count = ctx.get_state(count)
        self.kinds = ctx.get_map_state(kinds)
        self.last = ctx.get_list_state(ListStateDescriptor("last", "long"))
        self.top = ctx.get_sorted_map_state(SortedMapStateDescriptor("top", "long", "long"))
        self.fired = ctx.get_state(ValueStateDescriptor("fired", "long", default=0))
        self.rules = ctx.get_state(ValueStateDescriptor("seen_rules", "long", default=0))

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(BROADCAST)
        if rule.n != (rules.get(-1) or 0):
            raise AssertionError(f"rule {rule.n} after {rules.get(-1)} rules")
        rules.put(-1, rule.n + 1)
        rules.put(rule.n % RULES, (rules.get(rule.n % RULES) or 0) + 1)

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        if row.n == CLOSING:
            return
        self._check_rules(row, ctx)
        self.count.update(self.count.value() + 1)
        self.last.add(row.n)
        if row.n % 7 == 0:
            self.last.clear()
        self.kinds.put(row.n % 3, (self.kinds.get(row.n % 3) or 0) + row.n)
        if row.n % 11 == 0:
            self.kinds.remove(row.n % 3)
        self.top.put(row.n * 37 % 1009, row.n)
        if len(list(self.top.items())) > 3:
            self.top.pop_first()
        if row.n % 50 == 0:
            ctx.timer_service().register_event_time_timer(millis(row.n + 10))
        text = [self.count.value(), sum(self.last), sorted(self.kinds.items())]
        yield row.ts, row.key, row.n, json.dumps([*text, list(self.top.items())])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        self.fired.update(self.fired.value() + 1)
        n = (timestamp - millis(0)) // 1000
        yield time_of(n), ctx.get_current_key(), n, f"timer {self.fired.value()}"

    def _check_rules(self, row: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(BROADCAST)
        known = rules.get(-1) or 0
        if known < self.rules.value():
            raise AssertionError(f"{known} rules, and {self.rules.value()} before")
        self.rules.update(known)
        if row.n % 50 == 0 and sum(v for k, v in rules.items() if k >= 0) != known:
            raise AssertionError(f"of {known} rules there are {dict(rules.items())}")


def time_of(n: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(seconds=n)


def millis(n: int) -> int:
    return int(time_of(n).timestamp() * 1000)


def expected(until: int) -> Iterator[tuple[Any, ...]]:
    """What the function emits for all rows."""
    states: dict[int, tuple[list[int], list[int], dict[int, int], dict[int, int]]] = {}
    fired: dict[int, int] = {}
    for n in range(until):
        key = n % KEYS
        count, last, kinds, top = states.setdefault(key, ([0], [], {}, {}))
        count[0] += 1
        last.append(n)
        if n % 7 == 0:
            last.clear()
        kinds[n % 3] = kinds.get(n % 3, 0) + n
        if n % 11 == 0:
            del kinds[n % 3]
        top[n * 37 % 1009] = n
        if len(top) > 3:
            del top[min(top)]
        text = [count[0], sum(last), sorted(kinds.items()), sorted(top.items())]
        yield time_of(n), key, n, json.dumps(text)
        if n % 50 == 0:
            fired[key] = fired.get(key, 0) + 1
            yield time_of(n + 10), key, n + 10, f"timer {fired[key]}"


def summed(rows: DataFrame) -> DataFrame:
    """Spark's aggregation: any row that is lost, doubled or wrong changes it."""
    return rows.groupBy(F.window("ts", "100 seconds").alias("w"), "key").agg(
        F.count("*").alias("rows"), F.sum(F.expr("pmod(xxhash64(n, text), 1000003)")).alias("sum")
    )


def allow(folder: Path, until: int, end: bool) -> None:
    part = folder / "until.part"
    part.write_text(json.dumps([until, end]))
    part.rename(folder / "until")


def start(spark: SparkSession, folder: Path, **trigger: Any) -> Any:
    def source(rows: int, closes: bool) -> DataFrame:
        counter = Counter(folder / "until", closes)
        # Batches are full, so that their number tells how far it got.
        return keystate.source(
            spark, counter, "n long", max_rows_per_batch=rows, max_batch_duration=5
        )

    seconds = F.when(F.col("n") == CLOSING, 10**8).otherwise(F.col("n"))
    rows = (
        source(ROWS, True)
        .withColumn("ts", F.timestamp_seconds(seconds + int(EPOCH.timestamp())))
        .withColumn("key", F.pmod("n", F.lit(KEYS)))
        .withWatermark("ts", "0 seconds")
    )
    tallied = keystate.keyed(rows, "key").process(Tally(), "ts timestamp, key long, n long")
    emitted = (
        keystate.keyed(tallied, "key")
        .connect(keystate.broadcast(source(1, False), BROADCAST))
        .process(Soak(), ROW)
    )
    return (
        summed(emitted)
        .selectExpr("w.start", "key", "rows", "sum")
        .writeStream.format("parquet")
        .option("path", str(folder / "output"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def main() -> None:
    folder, partitions, master, settings = sys.argv[1:]
    own = json.loads(settings)
    spark = sessions.create(master, partitions, **{"spark.sql.session.timeZone": "UTC"}, **own)
    start(spark, Path(folder), processingTime="0 seconds").awaitTermination()


if __name__ == "__main__":
    main()
