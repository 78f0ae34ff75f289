"""A copy of a checkpoint into an object store, which ends half-way as a test plans.

python cut_off_copy_query.py FOLDER KIND STEP

KIND is `savepoint` or `import`. The first STEP, `cut`, makes a checkpoint and copies it. The
second, `again`, looks at what there is, deletes it, makes the copy, and goes on with it. It writes
what it found into FOLDER/found.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import admin
from keystate.session import PROVIDER, PROVIDER_KEY
from pyspark.sql import SparkSession

from tests.fault import batch_files, faults, sessions

SPARKS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
KEYS, EACH = 20, 3


def feed(folder: Path, number: int) -> None:
    keys = [i % KEYS for i in range(KEYS * EACH)]
    batch_files.write(folder / "input", number, pa.table({"key": keys}))


def run(spark: SparkSession, folder: Path, checkpoint: str) -> list[list[int]]:
    """Counts the rows of each key; returns what came out."""
    emitted: list[list[int]] = []
    stream = spark.readStream.schema("key long").parquet(str(folder / "input"))
    query = (
        stream.groupBy("key")
        .count()
        .writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(lambda df, _: emitted.extend(map(list, df.collect())))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(emitted)


def error(operation: Callable[[], Any]) -> str:
    """What it fails with."""
    try:
        operation()
    except Exception as e:
        return str(e)
    return ""


def main() -> None:
    place, kind, step = sys.argv[1:]
    folder = Path(place)
    store = f"objects://{folder}"
    target = f"{store}/copy"
    builder = faults.configure(sessions.builder("local[2]", 2), folder / "plan")
    for key, value in {
        "impl": "keystate.faults.ObjectFileSystem",
        "impl.disable.cache": "true",
    }.items():
        builder = builder.config(f"spark.hadoop.fs.objects.{key}", value)
    spark = keystate.configure(builder).getOrCreate()

    def copy() -> int:
        if kind == "savepoint":
            return admin.savepoint(f"{store}/checkpoint", target)
        return admin.import_checkpoint(f"{store}/checkpoint", target)

    if step == "cut":
        feed(folder, 0)
        spark.conf.set(PROVIDER_KEY, PROVIDER if kind == "savepoint" else SPARKS)
        run(spark, folder, f"{store}/checkpoint")
        copy()
        return
    feed(folder, 1)
    found: dict[str, Any] = {
        "unfinished": {
            "inspect": error(lambda: admin.inspect(target)),
            "verify": error(lambda: admin.verify(target)),
            "rescale": error(lambda: admin.rescale(target, 3)),
            "savepoint": error(lambda: admin.savepoint(target, f"{store}/other")),
            "edit": error(lambda: admin.edit(target)),
            "query": error(lambda: run(spark, folder, target)),
        },
        "exists": error(copy),
    }
    path = spark._jvm.org.apache.hadoop.fs.Path(target)
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)
    found["batch"] = copy()
    found["problems"] = admin.verify(target)
    found["emitted"] = run(spark, folder, target)
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
