"""A process with a Spark session that runs queries as it is told to: see systems.py.

python -m bench.nexmark.spark_system NAME
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.children import serve
from bench.nexmark import spark_sql, stock
from bench.nexmark.inputs import Inputs, Way
from bench.nexmark.queries import BY_COLUMNS, BY_ROWS
from bench.session import bench_session, configured

ROCKSDB = {
    name: Way(way.build, settings={"spark.keystate.backend": "rocksdb"})
    for name, way in BY_ROWS.items()
}
#: The ways to write the queries that run in Spark, by name.
WAYS: dict[str, dict[str, Way]] = {
    "keystate": BY_ROWS,
    "keystate, by columns": BY_COLUMNS,
    "keystate, RocksDB": ROCKSDB,
    "Spark SQL": spark_sql.WAYS,
    "transformWithStateInPandas": stock.WAYS,
}


def run(spark: SparkSession, way: Way, folder: Path, work: Path) -> dict[str, Any]:
    """One query from start to end, into the noop sink."""
    checkpoint = tempfile.mkdtemp(dir=work)
    with configured(spark, way.settings):
        out = way.build(Inputs(spark, folder))
        started = time.perf_counter()
        query = (
            out.writeStream.format("noop")
            .outputMode(way.mode)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        seconds = time.perf_counter() - started
    shutil.rmtree(checkpoint)
    progress = [p for p in query.recentProgress if p.numInputRows]
    return {
        "seconds": seconds,
        "batch_ms": [p.durationMs["triggerExecution"] for p in progress],
        "emitted": sum(p.sink.numOutputRows for p in query.recentProgress),
    }


def main() -> None:
    ways = WAYS[sys.argv[1]]
    with bench_session() as (spark, work):
        serve(lambda asked: run(spark, ways[asked["query"]], Path(asked["folder"]), work))


if __name__ == "__main__":
    main()
