"""Runs a query with Spark's web UI, and prints what its tab "Keystate" shows.

In a browser too, if one is installed.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ListStateDescriptor, ValueStateDescriptor
from pyspark.sql import SparkSession

from tests.query.browser import Browser


class Counts(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.count.update(self.count.value() + 1)
        self.seen.add(row.value)


def main(folder: Path) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.port", "0")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", "3")
    builder = builder.config("spark.keystate.ui.sampleKeys", sys.argv[2])
    spark = keystate.configure(builder).getOrCreate()
    web = spark.sparkContext.uiWebUrl
    assert web is not None

    def page() -> str:
        with urllib.request.urlopen(f"{web}/keystate/", timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    schema = "key long, value long"
    (folder / "input").mkdir()

    def feed(batch: int, *keys: int) -> None:
        rows = "\n".join(json.dumps({"key": key, "value": 7}) for key in keys)
        (folder / f"input/_{batch}").write_text(rows)
        (folder / f"input/_{batch}").rename(folder / f"input/{batch}.json")

    feed(0, 5)
    arriving = spark.readStream.schema(schema).json(str(folder / "input"))
    query = (
        keystate.keyed(arriving, "key")
        .process(Counts(), "x int", name="visits")
        .writeStream.queryName("<counts>")
        .format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )

    def wait_for(batch: int) -> None:
        while not (query.lastProgress and query.lastProgress["batchId"] >= batch):
            query.awaitTermination(0.2)

    try:
        wait_for(0)
        # The workers of the next batch have been there for a while.
        time.sleep(2)
        feed(1, *range(40), *[5] * 60)
        wait_for(1)
        shown = page()
        metrics = query.recentProgress[1].stateOperators[0].customMetrics
        browser = Browser.find()
        in_browser = browser.dom(f"{web}/keystate/") if browser else None
    finally:
        query.stop()
        query.awaitTermination()
    hottest = metrics.get("keystateHottestKeyPercent")
    found = {"running": shown, "in browser": in_browser, "stopped": page(), "hottest": hottest}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
