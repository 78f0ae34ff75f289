"""A query of Spark's own operators, whose checkpoints are kept here as earlier builds wrote them.

To keep one of the present build, from the repository's root and with it on PYTHONPATH:

    python -m tests.golden.operators_golden operators/NAME.tar.gz BACKEND CHECKPOINT_FORMAT
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path

import keystate
from pyspark.sql import SparkSession

from tests.golden.golden_query import BACKEND, FORMAT, PARTITIONS, move
from tests.spark_queries import SCHEMA, batches, sql_operators

ZONE = "spark.sql.session.timeZone"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
EMITTED = "emitted.json"
KEPT = 2  # micro-batches that a kept checkpoint had


def source_of(checkpoint: Path) -> str:
    return f"file://{checkpoint.with_name('input')}"


def move_source(checkpoint: Path, place: str, to: str) -> None:
    """The log of the source's files has their paths, absolutely."""
    for path in (checkpoint / "sources" / "0").glob("[0-9]*"):
        path.write_text(path.read_text().replace(place, to))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def main(archive: str, backend: str, checkpoint_format: str) -> None:
    from conftest import Stream

    settings = {BACKEND: backend, FORMAT: checkpoint_format, PARTITIONS: "2", NO_DATA: "false"}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config(ZONE, "Europe/Berlin")  # that of the tests
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = keystate.configure(builder).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        fed = Stream(spark, Path(folder) / "golden", SCHEMA)
        emitted = []
        for batch in batches()[:KEPT]:
            fed.feed(batch)
            emitted += map(tuple, fed.run(sql_operators))
        move(fed.checkpoint, f"file:{fed.checkpoint}", "CHECKPOINT")
        move_source(fed.checkpoint, source_of(fed.checkpoint), "INPUT")
        told = Path(folder) / EMITTED
        told.write_text(json.dumps(emitted))
        with tarfile.open(Path(__file__).parent / archive, "w:gz", compresslevel=9) as tar:
            tar.add(fed.checkpoint, "checkpoint")
            tar.add(told, EMITTED)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
