"""Sorted maps where stock Spark has a map and a sort: a leaderboard, and events put in order.

``python -m bench.sorted_map``; see README.md.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
from keystate import (
    DESCENDING,
    KeyedProcessFunction,
    MapStateDescriptor,
    SortedMapStateDescriptor,
)
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.session import STOCK, bench_session, measure, write

TOP = 3
KEY = "key long"
PLAYERS = 1000


class Leaderboard(KeyedProcessFunction):
    """The best score of each player; emits the lowest score on the podium after every row."""

    def open(self, ctx: Any) -> None:
        self.best = ctx.get_map_state(MapStateDescriptor("best", "long", "long"))
        self.ranking = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("ranking", "score long, player long", "boolean", DESCENDING)
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        before = self.best.get(row.player)
        if before is None or before < row.score:
            if before is not None:
                self.ranking.remove((before, row.player))
            self.ranking.put((row.score, row.player), True)
            self.best.put(row.player, row.score)
        podium = [entry for entry, _ in zip(self.ranking.keys(), range(TOP))]
        yield row.key, podium[-1].score


class StockLeaderboard(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.best = handle.getMapState("best", "player long", "score long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        found = []
        for pdf in rows:
            for player, score in zip(pdf["player"].tolist(), pdf["score"].tolist()):
                before = self.best.getValue((player,)) if self.best.containsKey((player,)) else None
                if before is None or before[0] < score:
                    self.best.updateValue((player,), (score,))
                ranking = sorted((value[0] for value in self.best.values()), reverse=True)
                found.append(ranking[:TOP][-1])
        yield pd.DataFrame({"key": [key[0]] * len(found), "score": found})

    def close(self) -> None:
        pass


def leaderboard(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Leaderboard(), f"{KEY}, score long")


def stock_leaderboard(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithStateInPandas(
        StockLeaderboard(), f"{KEY}, score long", "Update", "None"
    )


def games(rows: int) -> pa.Table:
    random = np.random.default_rng(7)
    columns = {
        "key": random.integers(0, max(1, rows // (2 * PLAYERS)), rows),
        "player": random.integers(0, PLAYERS, rows),
        "score": random.integers(0, 10**6, rows),
    }
    return pa.table(columns)


class Reorder(KeyedProcessFunction):
    """Buffers events by time; at the watermark releases those up to it, in order."""

    def open(self, ctx: Any) -> None:
        self.events = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("events", "timestamp", "long")
        )

    def process_element(self, row: Any, ctx: Any) -> None:
        self.events.put(row.time, row.value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        time, value = self.events.pop_first()
        yield ctx.get_current_key(), time, value


class StockReorder(StatefulProcessor):
    """One timer for each micro-batch that brings events: it reads the map once and sorts it."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.events = handle.getMapState("events", "time long", "value long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for pdf in rows:
            for time, value in zip(pdf["time"], pdf["value"].tolist()):
                self.events.updateValue((time.value // 1000,), (value,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 1)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        until = timerValues.getCurrentWatermarkInMs() * 1000 + 999
        events = sorted(self.events.iterator())
        due = [event for event in events if event[0][0] <= until]
        for time, _ in due:
            self.events.removeKey(time)
        if len(due) < len(events):
            self.handle.registerTimer(events[len(due)][0][0] // 1000)
        if due:
            yield pd.DataFrame(
                {
                    "key": [key[0]] * len(due),
                    "time": [pd.Timestamp(time[0], unit="us") for time, _ in due],
                    "value": [value[0] for _, value in due],
                }
            )

    def close(self) -> None:
        pass


RELEASED = f"{KEY}, time timestamp, value long"


def reorder(df: DataFrame) -> DataFrame:
    return keystate.keyed(df.withWatermark("time", "1 second"), "key").process(Reorder(), RELEASED)


def stock_reorder(df: DataFrame) -> DataFrame:
    return (
        df.withWatermark("time", "1 second")
        .groupBy("key")
        .transformWithStateInPandas(StockReorder(), RELEASED, "Append", "EventTime")
    )


def events(rows: int) -> pa.Table:
    """Events of some keys, a ms apart and up to a second late."""
    random = np.random.default_rng(7)
    times = np.arange(rows) * 1000 + 1_700_000_000_000_000
    order = np.argsort(np.arange(rows) + random.integers(0, 900, rows))
    columns = {
        "key": pa.array(random.integers(0, max(1, rows // 1000), rows)),
        "time": pa.array(times[order], pa.timestamp("us", tz="UTC")),
        "value": pa.array(np.arange(rows)),
    }
    return pa.table(columns)


def run(
    name: str,
    make: Callable[[int], pa.Table],
    ours: Callable[[DataFrame], DataFrame],
    stock: Callable[[DataFrame], DataFrame],
    rows: int,
    stock_rows: int,
    repeats: int,
) -> None:
    with bench_session() as (spark, work):
        rates = []
        for label, build, count, settings in (
            ("keystate", ours, rows, {}),
            ("transformWithStateInPandas", stock, stock_rows, STOCK),
        ):
            folder = write(work / f"{name}-{label}", make(count))
            # The first warms up; four micro-batches, so that the watermark moves.
            runs = [
                measure(spark, build, folder, settings, files_per_batch=1)
                for _ in range(repeats + 1)
            ][1:]
            seconds = statistics.median(each.seconds for each in runs)
            rates.append(count / seconds)
            print(f"{name}: {label}: {count} rows, {seconds:.2f} s, {rates[-1]:,.0f} rows/s,"
                  f" {runs[-1].emitted} emitted", flush=True)  # fmt: skip
        print(f"{name}: {rates[0] / rates[1]:.1f} times", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--stock-rows", type=int, default=4_000)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    sizes = (args.rows, args.stock_rows, args.repeats)
    run("leaderboard", games, leaderboard, stock_leaderboard, *sizes)
    run("reorder", events, reorder, stock_reorder, *sizes)


if __name__ == "__main__":
    main()
