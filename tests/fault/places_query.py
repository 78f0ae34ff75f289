"""An elastic query whose executors go and come, and where its partitions are.

python places_query.py FOLDER

FOLDER/found.json has for each step the executor of each partition, and how many rows each key had.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import DataFrame

from tests.fault import batch_files, sessions
from tests.fault.drivers import CLUSTER

KEYS = 200


class Where(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.subtask = ctx.get_index_of_this_subtask()

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        # All workers of an executor are children of one process.
        yield self.subtask, os.getppid(), self.count.value()


def main(folder: Path) -> None:
    # Tasks wait for the executor that they prefer, however slow the machine is.
    spark = sessions.create(CLUSTER, 4, **{"spark.locality.wait": "60s"})
    executors = spark.sparkContext._jsc.sc()
    seen: list[Any] = []

    def keep(df: DataFrame, _: int) -> None:
        seen.extend(df.collect())

    def start() -> Any:
        rows = spark.readStream.schema("key long").parquet(str(folder / "input"))
        return (
            keystate.keyed(rows, "key")
            .process(Where(), "subtask int, executor long, count long")
            .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
            .foreachBatch(keep)
            .start()
        )

    found: list[Any] = []

    def step(query: Any) -> None:
        """A row of each key."""
        batch_files.write(folder / "input", len(found), pa.table({"key": list(range(KEYS))}))
        seen.clear()
        query.processAllAvailable()
        places = sorted({(row.subtask, row.executor) for row in seen})
        found.append([places, sorted({row["count"] for row in seen})])

    def wait_for(number: int) -> None:
        """Until there are so many executors, as far as the driver knows, which is one of these."""
        while executors.getExecutorMemoryStatus().size() != number + 1:
            time.sleep(0.1)

    wait_for(2)
    (folder / "input").mkdir()
    query = keystate.elastic(start, spark=spark)
    step(query)
    for partitions in (8, 3):
        query.rescale(partitions)
        step(query)
    executors.killExecutor(executors.getExecutorIds().head())
    wait_for(1)
    executors.requestTotalExecutors(2, 0, spark._jvm.PythonUtils.toScalaMap({}))
    wait_for(2)
    query.rescale(4)
    step(query)
    query.stop()
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
