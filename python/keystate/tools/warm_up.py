"""What ``keystate warm-up`` does: later sessions load their JVM's classes from an archive."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession

from keystate._jvm.class_cache import QUIET, making, session_archive
from keystate._jvm.session import JVM_OPTIONS_KEY, configure
from keystate.errors import ConfigurationError
from keystate.functions import Context, KeyedProcessFunction, RuntimeContext
from keystate.state import ReducingStateDescriptor
from keystate.streams.keyed import keyed


def make() -> Path:
    """Makes the archive, or makes it again.

    Raises:
        ConfigurationError: there is no Java, or no home folder.
        OSError: the user's cache folder can't be written.
    """
    archive = session_archive()
    if archive is None:
        raise ConfigurationError(
            "there is no Java, or no folder for the archive: see keystate doctor, or set "
            "XDG_CACHE_HOME",
            code="KEYSTATE_CONFIGURATION",
        )
    archive.unlink(missing_ok=True)
    with making(archive) as option:
        run({JVM_OPTIONS_KEY: f"{option} {QUIET}"})
    if not archive.exists():
        raise OSError(f"the JVM wrote no archive of its classes to {archive.parent}")
    return archive


class _Count(KeyedProcessFunction):
    def open(self, context: RuntimeContext) -> None:
        self.count = context.get_reducing_state(
            ReducingStateDescriptor("count", lambda a, b: a + b, "long")
        )

    def process_element(self, row: Row, context: Context) -> list[Row]:
        self.count.add(1)
        return [Row(id=row.id, count=self.count.get())]


def _collect(rows: DataFrame, batch: int) -> None:
    rows.collect()


def run(settings: dict[str, str]) -> None:
    """Does what most programs do in a session of its own, and waits until its JVM has ended.

    Args:
        settings: of the session.
    """
    builder = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR")
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = configure(builder).getOrCreate()
    with tempfile.TemporaryDirectory(prefix="keystate-") as folder:
        spark.range(9).write.parquet(f"{folder}/input")
        rows = spark.readStream.schema("id long").parquet(f"{folder}/input")
        counts = keyed(rows, "id").process(_Count(), "id long, count long")
        for backend in ("hashmap", "rocksdb"):
            spark.conf.set("spark.keystate.backend", backend)
            for query in (counts, rows.groupBy("id").count()):
                writer = query.writeStream.outputMode("update").trigger(availableNow=True)
                writer = writer.foreachBatch(_collect)
                name = tempfile.mkdtemp(dir=folder)
                writer.option("checkpointLocation", name).start().awaitTermination()
        spark.stop()
        gateway: Any = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()  # it writes to the folder to its end
