"""What the contract tests say of states, in real-time mode; with SLOW=1 all that can run in it.

Those of timers and of time to live are not among them: they are about micro-batches, and set the
clock by hand. `test_real_time.py` has their like.
"""

from __future__ import annotations

import inspect
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import DataFrame, Row, SparkSession

from tests.conftest import Stream
from tests.contract import test_read_now, test_sorted_map, test_state_model, test_types
from tests.real_time import needs_real_time, wait_for

pytestmark = [needs_real_time, pytest.mark.usefixtures("short_batches")]


class PickledRows:
    """A sink that adds each row to a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def open(self, partition: int, epoch: int) -> bool:
        self._file = open(self.path, "ab")  # noqa: SIM115
        return True

    def process(self, row: Row) -> None:
        pickle.dump(row, self._file)

    def close(self, error: Exception | None) -> None:
        self._file.close()


def unpickled(path: Path) -> list[Row]:
    rows = []
    if path.exists():
        with path.open("rb") as file:
            while file.peek():
                rows.append(pickle.load(file))
    return rows


class LiveStream(Stream):
    """A stream in memory. A fed batch comes when all rows of the one before it are committed."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str) -> None:
        super().__init__(spark, folder, schema)
        self._waiting: list[Any] = []
        # How many rows were given to a query that failed before they were committed.
        self._open = 0
        jvm: Any = spark._jvm
        package = jvm.org.apache.spark.sql.execution.streaming.sources
        kind = spark._jsparkSession.parseDataType(self._schema.json())
        encoder = jvm.org.apache.spark.sql.Encoders.row(kind)
        self._stream = package.LowLatencyMemoryStream.apply(spark._jsparkSession, 1, encoder)
        self._to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq

    def feed(self, *batches: list[Any]) -> None:
        # Here, because a job finds no free core while a query runs.
        for rows in batches:
            made = self._spark.createDataFrame(rows, self._schema)
            self._waiting.append(made._jdf.collectAsList())

    def source(self) -> DataFrame:
        return DataFrame(self._stream.toDF(), self._spark)

    def micro_batches(
        self, query: DataFrame, mode: str = "append", options: dict[str, str] | None = None
    ) -> list[list[Row]]:
        if self._spark.conf.get(FORMAT_KEY) == "1":
            pytest.skip("Spark refuses this format in real-time mode")
        output = self.checkpoint.parent / "output"
        output.unlink(missing_ok=True)
        emitted: list[list[Row]] = []
        running = (
            query.writeStream.outputMode("update")
            .option("checkpointLocation", str(self.checkpoint))
            .options(**(options or {}))
            .foreach(PickledRows(output))
            .trigger(realTime="300 milliseconds")
            .start()
        )
        wanted = 0
        try:
            while self._open or self._waiting:
                if not self._open:
                    rows = self._waiting.pop(0)
                    self._stream.addData(self._to_seq(rows))
                    self._open = rows.size()
                wanted += self._open
                wait_for(running, lambda: self._has(running, wanted))  # noqa: B023
                self._open = 0
                known = sum(map(len, emitted))
                emitted.append(unpickled(output)[known:])
        finally:
            running.stop()
        self.progress = running.recentProgress
        return emitted

    def _has(self, query: Any, rows: int) -> bool:
        """Whether so many rows were in ended batches. Fails as the query does."""
        if (failure := query.exception()) is not None:
            raise failure
        return sum(progress.numInputRows for progress in query.recentProgress) == rows


@pytest.fixture
def stream_class() -> type[Stream]:
    return LiveStream


@pytest.mark.parametrize("way", ["ahead", "evicted and asked"])
def test_agrees_with_model(
    way: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    test_state_model.test_stream_agrees_with_model(way, "2", stream, settings)


if os.environ.get("SLOW"):
    for module in (test_read_now, test_sorted_map, test_state_model, test_types):
        for name, test in vars(module).items():
            if name.startswith("test_") and "stream" in inspect.signature(test).parameters:
                # Two modules may have tests of one name.
                globals()[module.__name__.rpartition(".")[2] + name.removeprefix("test")] = test
