"""What ``keystate demo --elastic`` runs: a stream whose load rises and falls.

Each click takes some milliseconds, as if another service were asked. So one partition is enough for
the load at first, and not for the load in the middle: the query gets more, and later fewer again.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from keystate import admin
from keystate._command.demo import Clicks, are_right, checkpoint_in
from keystate._counted import counted
from keystate.elasticity import ElasticQuery, elastic
from keystate.functions import KeyedProcessFunction
from keystate.scaling import ScalingPolicy
from keystate.sources import SourceContext, source
from keystate.state import ValueStateDescriptor
from keystate.streams.keyed import keyed

#: Clicks a second in the first, second and last third of the time.
RATES = (40, 400, 40)
SHOPS = 64
_CLICK_SECONDS = 0.004
_CLICK = "number long, shop long"
_POLICY = ScalingPolicy(
    target_seconds=2, max_partitions=4, shrink_below=0.45, micro_batches=1, cool_down_seconds=3
)


def made(seconds: float, of: float) -> int:
    """How many clicks there are after some seconds of so many."""
    third = of / len(RATES)
    spent = [min(max(seconds - i * third, 0), third) for i in range(len(RATES))]
    return int(sum(rate * part for rate, part in zip(RATES, spent, strict=True)))


class Waves(Clicks):
    """Makes as many clicks as there should be by now.

    Args:
        began: when the demo began, in seconds since the epoch.
        seconds: how long it takes.
    """

    def __init__(self, began: float, seconds: float) -> None:
        super().__init__()
        self.began = began
        self.seconds = seconds

    def run(self, ctx: SourceContext) -> None:
        """Looks ten times a second how many clicks are missing."""
        while self.running:
            with ctx.get_checkpoint_lock():
                for number in range(self.number, made(time.time() - self.began, self.seconds)):
                    ctx.collect((number, number % SHOPS))
                    self.number = number + 1
            time.sleep(0.1)


class Count(KeyedProcessFunction):
    """Counts a shop's clicks, which takes its time."""

    def open(self, ctx: Any) -> None:
        """Gets the state."""
        self.clicks = ctx.get_state(
            ValueStateDescriptor("clicks", "n long, numbers long", default=(0, 0))
        )

    def process_element(self, row: Any, ctx: Any) -> None:
        """Counts a click."""
        time.sleep(_CLICK_SECONDS)
        n, numbers = self.clicks.value()
        self.clicks.update((n + 1, numbers + row.number))


def run(spark: SparkSession, folder: str, seconds: float) -> bool:
    """Runs the stream with its checkpoint in a folder, and shows each second how far it is behind.

    Returns:
        Whether each click was counted just once.
    """
    checkpoint = checkpoint_in(folder)
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    rates = ", then ".join(map(str, RATES))
    print(
        f"Clicks of {SHOPS} shops: {rates} a second. Each takes 4 ms. The query gets more\n"
        f"partitions as it falls behind. It takes {seconds:g} seconds; Ctrl-C ends it.\n"
    )
    began = time.time()
    clicks = source(spark, Waves(began, seconds), _CLICK)
    counted = keyed(clicks, "shop").process(Count(), "shop long", name="shops")
    writer = counted.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = elastic(writer.start, _POLICY, spark=spark, poll_seconds=0.2)
    by_batch: dict[int, int] = {}
    try:
        _watch(query, began, seconds, by_batch)
    except KeyboardInterrupt:
        print()
    finally:
        query.stop()
    if error := query.exception():
        raise error
    for change in query.rescales:
        print(f"From {change.before} to {change.after} in {change.seconds:.2f} s: {change.reason}.")
    if not by_batch:
        return True
    states = admin.read_state(spark, checkpoint, state="clicks").collect()
    return are_right([(row.value.n, row.value.numbers) for row in states])


def _watch(query: ElasticQuery, began: float, seconds: float, by_batch: dict[int, int]) -> None:
    """Notes the clicks of each micro-batch; waits at least for the first one."""
    while query.isActive and (not by_batch or time.time() < began + seconds):
        query.awaitTermination(1)
        by_batch |= {one.batchId: one.numInputRows for one in query.recentProgress}
        now = time.time() - began
        waiting = made(now, seconds) - sum(by_batch.values())
        bar = "#" * min(waiting // 50, 40)
        partitions = counted(query.partitions or 1, "partition")
        print(f"{now:4.0f} s  {partitions}  {waiting:6,} wait {bar}", flush=True)
