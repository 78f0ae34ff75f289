"""Where the time of a small micro-batch goes.

python -m bench.small_batch [--batches 40] [--rows 10] [--partitions 2] [--only NAME ...]

Of each query the medians over its micro-batches, after those that warm up:

- the parts of a micro-batch, as Spark reports them (`durationMs`);
- its tasks, on average: how many there are, how long all of them run, and how long it takes to
  unpack them;
- the time in which the stateful operator works and commits, of all tasks together; for Keystate
  also what it waits for its workers, and what of that is until they are ready.

The queries run in turns. The one without state sends the rows to Python and back.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.session import CORES, bench_session, configured, write
from bench.workloads import KEYSTATE, SHIP, Contender
from bench.workloads.average import with_shipping
from bench.workloads.overhead import TINY, TINY_ROWS, some_keys

WARM = 5
QUERIES = {KEYSTATE: TINY[KEYSTATE], SHIP: Contender(with_shipping), **TINY}
PARTS = ["latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets"]
OPERATOR = {
    "rows, all tasks": "allUpdatesTimeMs",
    "removals, timers": "allRemovalsTimeMs",
    "commit, all tasks": "commitTimeMs",
}
WORKER = {"worker, all tasks": "keystateWorkerMs", "until it is ready": "keystateWorkerStartMs"}

Times = dict[str, list[float]]


class Stages:
    """The stages that Spark has run; some ms pass before it knows of their end."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm, self._gateway = context._jvm, context._gateway
        self._store = context._jsc.sc().statusStore()

    def all(self) -> list[Any]:
        # All parameters: Scala's defaults can't be had from here.
        quantiles = self._gateway.new_array(self._jvm.double, 0)
        statuses = self._jvm.java.util.ArrayList()
        found = self._store.stageList(statuses, False, False, quantiles, statuses)
        return [found.apply(i) for i in range(found.size())]


def measure(spark: SparkSession, contender: Contender, data: Path, times: Times) -> None:
    """Runs a query over a folder and adds what its micro-batches took."""
    checkpoint = tempfile.mkdtemp(dir=data.parent)
    schema = spark.read.parquet(str(data)).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(data))
    stages = Stages(spark)
    before = {stage.stageId() for stage in stages.all()}
    with configured(spark, dict(contender.settings)):
        query = (
            _query(contender.build, rows)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    shutil.rmtree(checkpoint)
    progress = [p for p in query.recentProgress if p.numInputRows]
    for p in progress[WARM:]:
        for part in ("triggerExecution", *PARTS):
            times.setdefault(part, []).append(p.durationMs.get(part, 0))
        for name, field in OPERATOR.items():
            total = sum(getattr(operator, field) for operator in p.stateOperators)
            times.setdefault(name, []).append(total)
        for name, metric in WORKER.items():
            total = sum(operator.customMetrics.get(metric, 0) for operator in p.stateOperators)
            times.setdefault(name, []).append(total)
    own = [stage for stage in stages.all() if stage.stageId() not in before]
    own.sort(key=lambda stage: stage.stageId())
    # Each micro-batch has as many stages as the others.
    own = own[WARM * len(own) // len(progress) :]
    for name, of in TASKS.items():
        total = sum(of(stage) for stage in own)
        times.setdefault(name, []).append(total / (len(progress) - WARM))


TASKS: dict[str, Callable[[Any], float]] = {
    "tasks": lambda stage: stage.numCompleteTasks(),
    "tasks run": lambda stage: stage.executorRunTime(),
    "tasks, CPU of the JVM": lambda stage: stage.executorCpuTime() / 1e6,
    "tasks unpacked": lambda stage: stage.executorDeserializeTime(),
}


def _query(build: Callable[[DataFrame], DataFrame], rows: DataFrame) -> Any:
    return build(rows).writeStream.format("noop").outputMode("update")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rows", type=int, default=TINY_ROWS, help="of a micro-batch")
    parser.add_argument("--partitions", type=int, default=CORES)
    parser.add_argument("--only", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--reps", type=int, default=3)
    arguments = parser.parse_args()
    settings = {
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.shuffle.partitions": str(arguments.partitions),
    }
    times: dict[str, Times] = {name: {} for name in arguments.only}
    with bench_session(settings) as (spark, work):
        batches, rows = arguments.batches + WARM, arguments.rows
        data = write(work / "data", some_keys(100 * rows, batches, rows), batches)
        for _ in range(arguments.reps):
            for name in arguments.only:
                measure(spark, QUERIES[name], data, times[name])
    names = arguments.only
    print(f"{'ms':24}" + "".join(f"{name.split(',')[0]:>28}" for name in names))
    for part in ["triggerExecution", *PARTS, *TASKS, *OPERATOR, *WORKER]:
        print(f"{part:24}" + "".join(f"{statistics.median(times[n][part]):>28.1f}" for n in names))


if __name__ == "__main__":
    main()
