"""Makes the golden checkpoints of the installed Spark's line anew.

`make golden` runs it. An archive's name has its backend, its checkpoint format and its line of
Spark.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pyspark
from pyspark.sql import DataFrame, SparkSession

from tests import spark_queries
from tests.conftest import Stream
from tests.golden import aggregates_golden
from tests.golden.golden_query import BACKEND, FORMAT, INPUT, PARTITIONS, batches, build, move
from tests.golden.operators_golden import EMITTED, KEPT, NO_DATA, move_source, source_of

HERE = Path(__file__).parent
OPERATORS = HERE / "operators"
AGGREGATES = HERE / "aggregates"
LINE = ".".join(pyspark.__version__.split(".")[:2])
#: Values so long that a run file has several sections.
MANY_SECTIONS = 1000


def archive(folder: Path, backend: str, checkpoint_format: int) -> Path:
    return folder / f"{backend}-v{checkpoint_format}-spark{LINE}.tar.gz"


def session(backend: str, checkpoint_format: int, no_data_batches: bool) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "Europe/Berlin",  # that of the tests
        BACKEND: backend,
        FORMAT: str(checkpoint_format),
        PARTITIONS: "2",
        NO_DATA: str(no_data_batches).lower(),
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return keystate.configure(builder).getOrCreate()


def every_state(backend: str, checkpoint_format: int, repeats: int) -> None:
    keep(HERE, backend, checkpoint_format, INPUT, batches(), lambda df: build(df, repeats))


def aggregates_of_columns(backend: str, checkpoint_format: int) -> None:
    keep(
        AGGREGATES,
        backend,
        checkpoint_format,
        aggregates_golden.INPUT,
        aggregates_golden.batches(),
        aggregates_golden.build,
    )


def keep(
    folder: Path,
    backend: str,
    checkpoint_format: int,
    schema: str,
    batches: list[list[Any]],
    build: Callable[[DataFrame], DataFrame],
) -> None:
    """Puts the checkpoint of all micro-batches but the last into a folder."""
    # A batch without data at the end: so a start does not look for the input of the last one.
    spark = session(backend, checkpoint_format, no_data_batches=True)
    with tempfile.TemporaryDirectory() as place:
        fed = Stream(spark, Path(place), schema)
        fed.feed(*batches[:-1])
        fed.run(build)
        move(fed.checkpoint, f"file:{fed.checkpoint}", "CHECKPOINT")
        with tarfile.open(archive(folder, backend, checkpoint_format), "w:gz") as tar:
            tar.add(fed.checkpoint, "checkpoint")
    spark.stop()


def operators_of_spark(backend: str, checkpoint_format: int) -> None:
    spark = session(backend, checkpoint_format, no_data_batches=False)
    with tempfile.TemporaryDirectory() as folder:
        fed = Stream(spark, Path(folder), spark_queries.SCHEMA)
        emitted = []
        for batch in spark_queries.batches()[:KEPT]:
            fed.feed(batch)
            emitted += map(tuple, fed.run(spark_queries.sql_operators))
        move(fed.checkpoint, f"file:{fed.checkpoint}", "CHECKPOINT")
        move_source(fed.checkpoint, source_of(fed.checkpoint), "INPUT")
        told = Path(folder) / EMITTED
        told.write_text(json.dumps(emitted))
        with tarfile.open(archive(OPERATORS, backend, checkpoint_format), "w:gz") as tar:
            tar.add(fed.checkpoint, "checkpoint")
            tar.add(told, EMITTED)
    spark.stop()


def main() -> None:
    for folder in (HERE, OPERATORS, AGGREGATES):
        folder.mkdir(exist_ok=True)
        for old in folder.glob(f"*-spark{LINE}.tar.gz"):
            old.unlink()
    for backend, checkpoint_format in (("hashmap", 1), ("rocksdb", 1), ("rocksdb", 2)):
        every_state(backend, checkpoint_format, repeats=50)
    every_state("hashmap", 2, MANY_SECTIONS)
    for backend, checkpoint_format in (("hashmap", 1), ("rocksdb", 2)):
        operators_of_spark(backend, checkpoint_format)
        aggregates_of_columns(backend, checkpoint_format)


if __name__ == "__main__":
    main()
