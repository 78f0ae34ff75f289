"""The fixtures of all tests, over a session of Spark Connect.

A test that is imported from another folder runs here with them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.connect.session import SparkSession

from tests.conftest import Stream
from tests.connect.server import running


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that was started with Keystate's jar and settings."""
    # Workers import the functions of a test from its module, and keystate.
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "TZ": "UTC",
    }
    folder = tmp_path_factory.mktemp("connect")
    settings = {**keystate.server_settings(), "spark.sql.session.timeZone": "Europe/Berlin"}
    with running(folder, settings, environment) as at:
        yield at


@pytest.fixture(scope="session")
def spark(address: str) -> Iterator[SparkSession]:
    builder: Any = SparkSession.builder.remote(address)
    session = keystate.configure(builder).create()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def as_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process PySpark's functions make columns of Spark Connect, as in a client's."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


class FileStream(Stream):
    """A stream whose rows come back by files: foreachBatch runs in a process of the server."""

    def __init__(self, spark: Any, folder: Path, schema: str) -> None:
        super().__init__(spark, folder, schema)
        self._seen: list[str] = []

    def run(
        self,
        build: Callable[[DataFrame], DataFrame],
        *,
        mode: str = "append",
        options: dict[str, str] | None = None,
    ) -> list[Row]:
        output = str(self.checkpoint.parent / "output")
        built = build(self.source())
        query = (
            built.writeStream.format("parquet")
            .outputMode(mode)
            .option("checkpointLocation", str(self.checkpoint))
            .option("path", output)
            .options(**(options or {}))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            self.progress = query.recentProgress
            query.stop()
        rows = self._spark.read.schema(built.schema).parquet(output)
        file = F.col("_metadata.file_path")
        emitted = rows.where(~file.isin(self._seen)) if self._seen else rows
        found: list[Row] = emitted.collect()
        self._seen = [row[0] for row in rows.select(file).distinct().collect()]
        return found


@pytest.fixture
def stream_class() -> type[Stream]:
    return FileStream
