"""A driver with its checkpoint in a store.

python store_query.py STORE FOLDER NAME PARTITIONS FORMAT

STORE is what the URLs in the store begin with; FOLDER/settings.json has what the session needs for
it. The query counts the rows of each key of the files in FOLDER/input, a file a micro-batch. With a
file FOLDER/NAME.sink it waits before it saves the output of a micro-batch other than the first, as
tests/fault/second_driver_query.py does. With the name `last` it ends when all is processed; then it
writes what it found into FOLDER/found.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import keystate
from keystate import admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import SparkSession

from tests.fault import sessions
from tests.fault.second_driver_query import Count, feed, wait_while, waiting_saver
from tests.fault.sessions import error


def session(folder: Path, partitions: str, checkpoint_format: str) -> SparkSession:
    builder = sessions.builder("local[4]", partitions).config(FORMAT_KEY, checkpoint_format)
    for key, value in json.loads((folder / "settings.json").read_text()).items():
        builder = builder.config(key, value)
    return keystate.configure(builder).getOrCreate()


def start(spark: SparkSession, folder: Path, name: str, checkpoint: str, **trigger: Any) -> Any:
    stream = (
        spark.readStream.schema("key long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )
    counts = keystate.keyed(stream, "key").process(Count(), "key long, count long")
    return (
        counts.writeStream.foreachBatch(waiting_saver(folder, name))
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )


def finish(spark: SparkSession, folder: Path, store: str) -> dict[str, Any]:
    """Goes on to the end, then with another number of partitions from a savepoint."""
    checkpoint, savepoint = f"{store}/query", f"{store}/savepoint"
    start(spark, folder, "last", checkpoint, availableNow=True).awaitTermination()
    found: dict[str, Any] = {"problems": admin.verify(checkpoint)}
    found["partitions"] = admin.inspect(checkpoint)["partitions"]
    state = spark.read.format("statestore").option("stateVarName", "count").load(checkpoint)
    found["state"] = sorted(state.selectExpr("key.key", "value.value").collect())
    table = spark.table(f"keystate.`{checkpoint}`.count").selectExpr("key.key", "value.value")
    found["table"] = sorted(table.collect())
    key = found["state"][0][0]
    found["one key"] = table.where(f"key = {key}").collect()

    # Micro-batches of a query that runs; the server's log is cut where the files appear.
    query = start(spark, folder, "last", checkpoint, processingTime="0 seconds")
    for number in range(100, 108):
        if number == 103:
            query.processAllAvailable()
            (folder / "steady").touch()
            wait_while(folder, "steady")
        feed(folder, number)
        query.processAllAvailable()
    (folder / "counted").touch()
    wait_while(folder, "counted")
    query.stop()

    admin.savepoint(checkpoint, savepoint)
    found["savepoint"] = admin.verify(savepoint)
    found["before"] = keystate.rescale(savepoint, 2)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    feed(folder, 200)
    start(spark, folder, "last", savepoint, availableNow=True).awaitTermination()
    found["after"] = admin.inspect(savepoint)["partitions"]
    found["problems"] += admin.verify(savepoint)

    admin.forget(savepoint, key=key)
    feed(folder, 201)
    start(spark, folder, "last", savepoint, availableNow=True).awaitTermination()
    found["forgotten"] = [admin.lookup(savepoint, state="count", key=one) for one in (key, key + 1)]
    found["traces"] = [file["file"] for file in admin.traces(savepoint, key=key)["files"]]
    found["problems"] += admin.verify(savepoint)
    create(spark, f"{store}/cut/_keystate/unfinished")
    found["cut off"] = [
        error(lambda: admin.verify(f"{store}/cut")),
        error(lambda: admin.savepoint(checkpoint, f"{store}/cut")),
        error(
            lambda: start(
                spark, folder, "last", f"{store}/cut", availableNow=True
            ).awaitTermination()
        ),
    ]
    return found


def create(spark: SparkSession, url: str) -> None:
    """Makes an empty file."""
    hadoop = spark._jvm.org.apache.hadoop.fs
    path = hadoop.Path(url)
    hadoop.FileSystem.get(path.toUri(), spark._jsc.hadoopConfiguration()).create(path).close()


def main() -> None:
    store, place, name, partitions, checkpoint_format = sys.argv[1:]
    folder = Path(place)
    spark = session(folder, partitions, checkpoint_format)
    if name == "last":
        found = finish(spark, folder, store)
        (folder / "found.json").write_text(json.dumps(found))
        return
    query = start(spark, folder, name, f"{store}/query", processingTime="0 seconds")
    while True:
        if query.exception() is not None:
            (folder / f"{name}.error").write_text(str(query.exception()))
        time.sleep(0.1)


if __name__ == "__main__":
    main()
