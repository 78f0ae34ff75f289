"""What ``keystate demo`` runs: a small stream in the terminal, with a live table of its states.

The input is made up on the way. Halfway the query is stopped and started again with more
partitions. At the end the states say whether each click was counted just once.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from keystate import admin
from keystate._types.counted import counted
from keystate.functions import KeyedProcessFunction, ListCheckpointed
from keystate.live.replay.replay import Replay, replay
from keystate.sources import SourceContext, SourceFunction, source
from keystate.state import MapStateDescriptor, ValueStateDescriptor
from keystate.streams.keyed import keyed
from keystate.tools.page import text

#: From those who click most to those who click least: each half as often as the one before.
USERS = ["ann", "bob", "cem", "dan", "eve", "fay", "gus", "hal"]
PAGES = ["home", "search", "product", "cart"]
#: A JVM that is quick to start rather than quick to run.
SETTINGS = ("spark.master=local[4]", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")

_PARTITIONS = (2, 4)
_START = datetime(2026, 1, 1, tzinfo=timezone.utc)
_BETWEEN = timedelta(milliseconds=100)  # of event time, from click to click
_GAP_MS = 10_000
_CLICK = "number long, user string, page string, time timestamp"
_SESSION = "user string, clicks long"


class Clicks(SourceFunction, ListCheckpointed[int]):
    """Makes up clicks, always the same ones, and keeps how far it got as its state."""

    def __init__(self) -> None:
        self.number = 0
        self.running = True

    def run(self, ctx: SourceContext) -> None:
        """Makes ten clicks at a time, a hundred a second or so."""
        while self.running:
            with ctx.get_checkpoint_lock():
                for _ in range(10):
                    ctx.collect(click(self.number))
                    self.number += 1
            time.sleep(0.1)

    def cancel(self) -> None:
        """Ends :meth:`run`."""
        self.running = False

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        """How many clicks there were."""
        return [self.number]

    def restore_state(self, state: list[int]) -> None:
        """Goes on from there."""
        self.number = sum(state)


def click(number: int) -> tuple[int, str, str, datetime]:
    """The click of a number."""
    chance = random.Random(number)
    (user,) = chance.choices(USERS, [2.0**-i for i in range(len(USERS))])
    return number, user, chance.choice(PAGES), _START + number * _BETWEEN


class Visits(KeyedProcessFunction):
    """Counts a user's clicks, and emits a session after ten seconds without any."""

    def open(self, ctx: Any) -> None:
        """Gets the states."""
        self.clicks = ctx.get_state(
            ValueStateDescriptor("clicks", "n long, numbers long", default=(0, 0))
        )
        self.pages = ctx.get_map_state(MapStateDescriptor("pages", "string", "long"))
        self.end = ctx.get_state(ValueStateDescriptor("end", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        """Counts a click."""
        n, numbers = self.clicks.value()
        self.clicks.update((n + 1, numbers + row.number))
        self.pages[row.page] = (self.pages[row.page] or 0) + 1
        timers = ctx.timer_service()
        if self.end.value() is not None:
            timers.delete_event_time_timer(self.end.value())
        self.end.update(ctx.timestamp() + _GAP_MS)
        timers.register_event_time_timer(ctx.timestamp() + _GAP_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int]]:
        """Ends the session."""
        yield ctx.get_current_key(), sum(self.pages.values())
        self.pages.clear()
        self.end.clear()


def _sessions(spark: SparkSession) -> DataFrame:
    clicks = source(spark, Clicks(), _CLICK).withWatermark("time", "1 second")
    return keyed(clicks, "user").process(Visits(), _SESSION, name="visits")


@dataclass
class _Run:
    """The query, and what is shown of it."""

    spark: SparkSession
    checkpoint: str
    shown: int = 0  # lines of the table, which the next one is drawn over
    seen: bool = False  # whether there was a table yet
    sessions: list[str] = field(default_factory=list)

    def start(self, partitions: int) -> StreamingQuery:
        self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        return (
            _sessions(self.spark)
            .writeStream.foreachBatch(self._ended)
            .option("checkpointLocation", self.checkpoint)
            .trigger(processingTime="500 milliseconds")
            .start()
        )

    def _ended(self, df: DataFrame, batch_id: int) -> None:
        self.sessions += [f"{row.user} with {row.clicks} clicks" for row in df.collect()]

    def states(self) -> tuple[int, dict[str, list[Any]]]:
        """The last micro-batch that counts, and what it left.

        Of each user the partition, the clicks, the sum of their numbers, and the session's pages.
        """
        batch = admin.inspect(self.checkpoint, spark=self.spark)["batch"]
        users: dict[str, list[Any]] = {}
        for row in self._read("clicks", batch).collect():
            users[row.key.user] = [row.partition_id, row.value.n, row.value.numbers, {}]
        for row in self._read("pages", batch).collect():
            users[row.key.user][3][row.user_map_key.key] = row.user_map_value.value
        return batch, users

    def _read(self, state: str, batch: int) -> DataFrame:
        return admin.read_state(self.spark, self.checkpoint, state=state, version=batch + 1)

    def show(self, partitions: int) -> None:
        batch, users = self.states()
        self.seen = True
        rows = [
            [
                user,
                str(partition),
                f"{n:,}",
                ", ".join(f"{p} {c}" for p, c in sorted(pages.items())),
            ]
            for user, (partition, n, _, pages) in sorted(users.items())
        ]
        title = (
            f"micro-batch {batch}, {counted(partitions, 'partition')}, "
            f"{sum(n for _, n, _, _ in users.values()):,} clicks"
        )
        heads = ["user", "partition", "clicks", "pages of the open session"]
        last = ", ".join(self.sessions[-3:]) or "none yet"
        self._draw(f"{text([(title, heads, rows)])}\nsessions that ended last: {last}\n")

    def _draw(self, table: str) -> None:
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns
            lines = [line[: width - 1] for line in table.splitlines()]
            if self.shown:
                print(f"\x1b[{self.shown}F\x1b[J", end="")
            print("\n".join(lines), flush=True)
            self.shown = len(lines)
        else:
            print(table, flush=True)

    def say(self, line: str) -> None:
        """Prints a line that stays."""
        self.shown = 0
        print(f"{line}\n", flush=True)


def checkpoint_in(folder: str) -> str:
    """Where a demo has its checkpoint."""
    return f"{folder.rstrip('/')}/checkpoint"


def run(spark: SparkSession, folder: str, seconds: float) -> bool:
    """Runs the stream with its checkpoint in a folder, and shows its states.

    Returns:
        Whether each click was counted just once.
    """
    demo = _Run(spark, checkpoint_in(folder))
    demo.say(
        "Clicks of made-up users, in a stream keyed by user. The table has the users' states,\n"
        f"read from the query's checkpoint. It takes {seconds:g} seconds; Ctrl-C ends it."
    )
    try:
        for partitions in _PARTITIONS:
            _run_for(demo, partitions, seconds / len(_PARTITIONS))
            if partitions != _PARTITIONS[-1]:
                demo.say(
                    f"Stopped. It starts again with {_PARTITIONS[-1]} partitions instead of "
                    f"{partitions}: users move, and their states with them."
                )
    except KeyboardInterrupt:
        demo.say("")
        if not demo.seen:
            return True
    users = demo.states()[1].values()
    return are_right([(n, numbers) for _, n, numbers, _ in users])


def are_right(counts: list[tuple[int, int]]) -> bool:
    """Says whether each click was counted just once.

    Args:
        counts: of each key the clicks, and the sum of their numbers, which begin with 0.
    """
    clicks = sum(n for n, _ in counts)
    right = sum(numbers for _, numbers in counts) == clicks * (clicks - 1) // 2
    if right:
        print(f"Stopped. There were {clicks:,} clicks, and each click was counted once.\n")
    else:
        print(f"Stopped. The states are wrong: {clicks:,} clicks were not counted once each.\n")
    return right


def again(spark: SparkSession, folder: str, user: str) -> Replay:
    """Runs the last micro-batch of a demo whose checkpoint was kept again, for one user."""
    checkpoint = checkpoint_in(folder)
    batch = admin.inspect(checkpoint, spark=spark)["batch"]
    return replay(_sessions(spark), checkpoint, batch=batch, key=user)


def _run_for(demo: _Run, partitions: int, seconds: float) -> None:
    query = demo.start(partitions)
    try:
        first = None
        while query.isActive and (first is None or time.monotonic() < first + seconds):
            query.awaitTermination(1)
            if query.lastProgress is not None and query.lastProgress.numInputRows > 0:
                demo.show(partitions)
                first = first or time.monotonic()
    finally:
        query.stop()
    if error := query.exception():
        raise error
