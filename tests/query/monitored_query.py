"""Queries for a Prometheus: python -m tests.query.monitored_query PORT_FILE FOLDER.

Writes the address of Spark's UI to the file; ends when its standard input does.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, OutputTag, ValueStateDescriptor
from pyspark.sql import SparkSession

SINK = "spark.metrics.conf.*.sink.prometheusServlet"


class Count(KeyedProcessFunction):
    """Fails on some rows."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.key % 10 == 3:
            raise ValueError("three")
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def main(ports: str, folder: str) -> None:
    builder = SparkSession.builder.master("local[2]").appName("monitored")
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.keystate.state.maxEntries": "1000000",
        "spark.keystate.ui.sampleKeys": "1",
        "spark.metrics.namespace": "shop",
        f"{SINK}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{SINK}.path": "/metrics/prometheus",
    }.items():
        builder = builder.config(key, value)
    backend = keystate.EmbeddedRocksDBStateBackend()
    spark = keystate.configure(builder, state_backend=backend).getOrCreate()
    arriving = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    # Every third row is of one hot key.
    key = "IF(value % 3 = 0, 0, value) AS key"
    rows = arriving.withWatermark("timestamp", "1 second").selectExpr(key, "timestamp")

    def start(name: str, **options: Any) -> Any:
        out = keystate.keyed(rows, "key").process(Count(), "key long, count long", **options)
        writer = out.writeStream.format("noop").queryName(name)
        writer = writer.trigger(processingTime="1 second")
        return writer.option("checkpointLocation", f"{folder}/{name}").start()

    bad = OutputTag("bad", keystate.dead_letter_schema())
    start("my orders", on_error=keystate.dead_letters(bad))
    failing = start("failing")
    # It starts again when somebody has seen that it runs.
    Path(f"{ports}.new").write_text(spark.sparkContext.uiWebUrl.removeprefix("http://"))
    Path(f"{ports}.new").rename(ports)
    while failing.isActive:
        time.sleep(0.1)
    for _ in range(5):
        time.sleep(3)
        start("failing")
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
