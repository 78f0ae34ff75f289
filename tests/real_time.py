"""Queries in real-time mode: a source that is fed by hand, and what their functions note."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from keystate._types.waiting import wait_until
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

needs_real_time = pytest.mark.skipif(
    pyspark.__version__.startswith(("4.1.", "4.2.")),
    reason="Spark before 4.3 has no real-time mode for queries with state",
)

MIN_DURATION = "spark.sql.streaming.realTimeMode.minBatchDuration"


class Source:
    """Rows in memory, of one partition. The same rows, added again, are the same offsets."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        package = self._jvm.org.apache.spark.sql.execution.streaming.sources
        encoder = self._jvm.org.apache.spark.sql.Encoders.STRING()
        self._stream = package.LowLatencyMemoryStream.apply(spark._jsparkSession, 1, encoder)

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        texts = self._jvm.java.util.ArrayList()
        for row in rows:
            texts.add(json.dumps(row))
        self._stream.addData(self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(texts))

    def rows(self, schema: str = "key long, x long") -> DataFrame:
        text = DataFrame(self._stream.toDF(), self._spark)
        columns = [column.split() for column in schema.split(",")]
        return text.select(
            *(
                F.get_json_object("value", f"$[{i}]").cast(kind).alias(name)
                for i, (name, kind) in enumerate(columns)
            )
        )


class Append:
    """A sink that adds each row to a file, as JSON."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def open(self, partition: int, epoch: int) -> bool:
        self._file = open(self.path, "a", buffering=1)  # noqa: SIM115
        return True

    def process(self, row: Any) -> None:
        self._file.write(json.dumps(list(row)) + "\n")

    def close(self, error: Exception | None) -> None:
        self._file.close()


def note(path: str, *what: Any) -> None:
    """Adds a line to a file at once, from a function: Spark's sink in Python may wait."""
    with open(path, "a") as file:
        file.write(json.dumps(what) + "\n")


def lines(path: Path) -> list[list[Any]]:
    """What is in such a file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def start(out: DataFrame, folder: Path, duration: str) -> Any:
    """Starts a query whose results go to the file ``out`` of a folder."""
    return (
        out.writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreach(Append(folder / "out"))
        .trigger(realTime=duration)
        .start()
    )


def in_micro_batches(out: DataFrame, folder: Path) -> Any:
    """Starts a query on the checkpoint of such a folder, without its sink."""
    return (
        out.writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(lambda df, _: df.collect())
        .trigger(processingTime="0 seconds")
        .start()
    )


def wait_for(query: Any, condition: Callable[[], bool], seconds: float = 120) -> None:
    """Fails if the query does, or if it takes too long."""

    def is_met() -> bool:
        met = condition()
        assert met or query.exception() is None, query.exception()
        return met

    wait_until(is_met, "a query", seconds)


def told_by(module: str, folder: Path) -> Any:
    """What a program with a session of its own prints last, as JSON."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
