"""A copy of a checkpoint into an object store, which ends half-way as a test plans.

python cut_off_copy_query.py FOLDER KIND STEP

KIND is `savepoint`, `import`, `create` or `edit`. The first STEP, `cut`, makes a checkpoint and
copies it. The second, `again`, looks at what there is, deletes it, makes the copy, and goes on with
it. The only STEP `everywhere` makes copies, of which the first ends before its second file is
complete, the next one before its third, until one ends well; and starts a query on each. What was
found is in FOLDER/found.json.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import admin
from keystate._jvm.session import PROVIDER, PROVIDER_KEY
from pyspark.sql import DataFrame, SparkSession

from tests.fault import batch_files, faults, sessions
from tests.fault.second_driver_query import Count
from tests.fault.sessions import error

SPARKS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
KEYS, EACH = 20, 3


def feed(folder: Path, number: int) -> None:
    keys = [i % KEYS for i in range(KEYS * EACH)]
    batch_files.write(folder / "input", number, pa.table({"key": keys}))


def count(rows: DataFrame) -> DataFrame:
    """Counts the rows of each key, by Spark's own operator."""
    return rows.groupBy("key").count()


def count_keyed(rows: DataFrame) -> DataFrame:
    """Likewise with a function of Keystate's."""
    return keystate.keyed(rows, "key").process(Count(), "key long, count long")


def run(
    spark: SparkSession,
    folder: Path,
    checkpoint: str,
    counted: Callable[[DataFrame], DataFrame] = count,
) -> list[list[int]]:
    """Runs a query to its end; returns what came out."""
    rows = spark.readStream.schema("key long").parquet(str(folder / "input"))
    emitted: list[list[int]] = []
    query = (
        counted(rows)
        .writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(lambda df, _: emitted.extend(map(list, df.collect())))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(emitted)


def main() -> None:
    place, kind, step = sys.argv[1:]
    folder = Path(place)
    store = f"objects://{folder}"
    target = f"{store}/copy"
    found: dict[str, Any]
    settings = {
        "spark.hadoop.fs.objects.impl": "keystate.faults.ObjectFileSystem",
        "spark.hadoop.fs.objects.impl.disable.cache": "true",
    }
    builder = sessions.builder("local[2]", 2).config(map=settings)
    spark = keystate.configure(faults.configure(builder, folder / "plan")).getOrCreate()

    def copy(target: str = target) -> Any:
        if kind == "savepoint":
            return admin.savepoint(f"{store}/checkpoint", target)
        if kind == "import":
            return admin.import_checkpoint(f"{store}/checkpoint", target)
        if kind == "create":
            rows = spark.range(KEYS).selectExpr("id AS key", "id AS value")
            return admin.create(target, Count(), key="key long", states={"count": rows})
        editor = admin.edit(f"{store}/checkpoint")
        editor.set_max_parallelism(64)
        return editor.write(target)

    counted = count_keyed if kind in ("create", "edit") else count
    if step in ("cut", "everywhere"):
        feed(folder, 0)
        spark.conf.set(PROVIDER_KEY, SPARKS if kind == "import" else PROVIDER)
        run(spark, folder, f"{store}/checkpoint", counted)
    if step == "cut":
        copy()
        return
    if step == "everywhere":
        spark.conf.set(PROVIDER_KEY, PROVIDER)
        errors = {}
        for nth in itertools.count(2):
            here = f"{store}/{nth}.copy"
            fault = folder / "plan" / f"{nth}.fault"
            fault.write_text(f"close {nth} dead /{nth}.copy/")
            failed = error(lambda here=here: copy(here))
            fault.unlink()
            if not fault.with_suffix(".happened").exists():
                break
            errors[nth] = [failed, error(lambda here=here: run(spark, folder, here, counted))]
        found = {"errors": errors, "last": failed, "emitted": run(spark, folder, here, counted)}
        (folder / "found.json").write_text(json.dumps(found))
        return
    feed(folder, 1)
    found = {
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
