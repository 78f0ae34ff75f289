"""The query of restart_query.py into Kafka, on files that go wrong as a test plans.

python exactly_once_query.py FOLDER SERVERS TOPIC SINK MASTER PARTITIONS SETTINGS

Settings that don't begin with `spark.` are options of the sink; `checkpoint` is the folder's name.

With the sink `read` nothing runs, but what consumers of committed records see is written into
`FOLDER/read.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keystate

from tests.fault import faults, restart_query, sessions
from tests.stores.artifacts import KAFKA_SOURCE, jars_for_spark


def read(spark: Any, servers: str, topic: str) -> list[list[Any]]:
    """The records of a topic in the order of their partitions and offsets."""
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .load()
        .selectExpr("partition", "offset", "string(key)", "string(value)")
        .collect()
    )
    return [list(row) for row in sorted(rows)]


def main() -> None:
    place, servers, topic, sink, master, partitions, told = sys.argv[1:]
    folder = Path(place)
    settings = json.loads(told)
    checkpoint = settings.pop("checkpoint", "checkpoint")
    options = {name: settings.pop(name) for name in list(settings) if not name.startswith("spark.")}
    jars = jars_for_spark("kafka-spark", **KAFKA_SOURCE)
    builder = sessions.builder(master, partitions).config("spark.jars", jars)
    builder = builder.config(map=settings)
    spark = keystate.configure(faults.configure(builder, folder / "plan")).getOrCreate()
    if sink == "read":
        (folder / "read.json").write_text(json.dumps(read(spark, servers, topic)))
        return
    stream = (
        spark.readStream.schema("number long, key long, x long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )
    query = (
        keystate.keyed(stream, "key")
        .process(restart_query.Ledger(), "number long, key long, state string")
        .selectExpr("string(key) AS key", "to_json(array(string(number), state)) AS value")
        .writeStream.format(sink)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .options(**options)
        .option("checkpointLocation", f"fault://{folder / checkpoint}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    (folder / "metrics.json").write_text(json.dumps([p["sink"] for p in progress(query)]))


def progress(query: Any) -> list[Any]:
    return [json.loads(each.json) for each in query.recentProgress]


if __name__ == "__main__":
    main()
