"""Feeds a topic and reads the results: python kafka_topics.py SERVERS FOLDER.

It writes ROUNDS times ROWS records, waits until there is no file FOLDER/results.wait, and writes
what is in the other topic and in the checkpoint's state into FOLDER/results.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import keystate
from keystate import admin

from tests.fault import sessions
from tests.stores.artifacts import KAFKA_SOURCE, jars_for_spark

ROUNDS, ROWS, KEYS = 20, 500, 50


def main() -> None:
    servers, place = sys.argv[1:]
    folder = Path(place)
    source = jars_for_spark("kafka-spark", **KAFKA_SOURCE)
    builder = sessions.builder("local[2]", 2).config("spark.jars", source)
    spark = keystate.configure(builder).getOrCreate()
    for number in range(ROUNDS):
        first = number * ROWS
        rows = spark.range(first, first + ROWS, numPartitions=1).selectExpr(
            f"concat('k', id % {KEYS}) AS key", "string(id) AS value"
        )
        rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option(
            "topic", "in"
        ).save()
        (folder / "rounds").write_text(str(number + 1))
        time.sleep(0.2)
    while (folder / "results.wait").exists():
        time.sleep(0.1)
    checkpoint = str(folder / "checkpoint")
    state = spark.read.format("statestore").option("stateVarName", "count").load(checkpoint)
    written = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "out")
        .load()
        .selectExpr("string(key)", "string(value)")
    )
    results = {
        "state": {row[0]: row[1] for row in state.selectExpr("key.key", "value.value").collect()},
        "written": [tuple(row) for row in written.collect()],
        "problems": admin.verify(checkpoint),
        "partitions": admin.inspect(checkpoint)["partitions"],
    }
    (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
