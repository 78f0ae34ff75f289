"""JVMs of programs that tests start: they live for a minute, start quickly, and leave nothing.

A JVM that a test kills can't delete its temporary files. So they are in a folder of the test run.
``make test`` makes an archive of the classes that such a program loads, by running this module.
With it a program starts in half the time.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import keystate
from pyspark import SparkContext
from pyspark.sql import Row, SparkSession

_FOLDER = "KEYSTATE_TEST_FOLDER"
_ARCHIVE = "KEYSTATE_TEST_CLASSES"

if _FOLDER not in os.environ:  # else a process of this test run has made it
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="keystate-")
    atexit.register(shutil.rmtree, os.environ[_FOLDER], ignore_errors=True)
    # For the programs. This process goes on with the system's own folder.
    os.environ["TMPDIR"] = os.environ[_FOLDER]


def _options() -> str:
    temporary = f"-Djava.io.tmpdir={os.environ[_FOLDER]}"
    archive = os.environ.get(_ARCHIVE)
    if not archive:
        return temporary
    # A JVM with other jars goes without the archive. It says nothing of that.
    use = "SharedArchiveFile" if os.path.exists(archive) else "ArchiveClassesAtExit"
    return f"{temporary} -XX:{use}={archive} -Xlog:disable"


#: Most code of a test runs a few times: to optimize it takes a fifth of all CPU time.
OPTIONS = f"{_options()} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ["SPARK_SUBMIT_OPTS"] = OPTIONS

#: For the environment of a program that makes a session.
ENVIRONMENT = {"SPARK_SUBMIT_OPTS": OPTIONS}


class _Count(keystate.KeyedProcessFunction):
    def open(self, context: keystate.RuntimeContext) -> None:
        self.count = context.get_reducing_state(
            keystate.ReducingStateDescriptor("count", lambda a, b: a + b, "long")
        )

    def process_element(self, row: Row, context: keystate.Context) -> list[Row]:
        self.count.add(1)
        return [Row(row.id, self.count.get())]


def _make_archive() -> None:
    """Runs what most programs of tests do."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = keystate.configure(builder.config("spark.sql.shuffle.partitions", "2")).getOrCreate()
    folder = Path(os.environ[_FOLDER])
    spark.range(9).write.parquet(str(folder / "input"))
    rows = spark.readStream.schema("id long").parquet(str(folder / "input"))
    for backend in ("hashmap", "rocksdb"):
        spark.conf.set("spark.keystate.backend", backend)
        counts = keystate.keyed(rows, "id").process(_Count(), "id long, count long")
        for _ in range(2):
            query = counts.writeStream.option("checkpointLocation", str(folder / backend))
            query = query.foreachBatch(lambda df, _: df.collect()).trigger(availableNow=True)
            query.start().awaitTermination()
    spark.stop()
    # It writes the archive at its end.
    gateway: Any = SparkContext._gateway
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    _make_archive()
