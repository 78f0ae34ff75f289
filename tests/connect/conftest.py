"""The fixtures of all tests, over a session of Spark Connect.

A test that is imported from another folder runs here with them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
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

    def micro_batches(
        self, query: DataFrame, mode: str = "append", options: dict[str, str] | None = None
    ) -> list[list[Row]]:
        output = self.checkpoint.parent / "output"
        before = set(self._files_by_batch(output))
        running = (
            query.writeStream.format("parquet")
            .outputMode(mode)
            .option("checkpointLocation", str(self.checkpoint))
            .option("path", str(output))
            .options(**(options or {}))
            .trigger(availableNow=True)
            .start()
        )
        try:
            running.awaitTermination()
        finally:
            self.progress = running.recentProgress
            running.stop()
        name = F.element_at(F.split("_metadata.file_path", "/"), -1)
        rows = self._spark.read.schema(query.schema).parquet(str(output))
        by_file: dict[str, list[Row]] = {}
        for file, row in rows.select(name, F.struct(*rows.columns)).collect():
            by_file.setdefault(file, []).append(row)
        return [
            [row for file in files for row in by_file.get(file, [])]
            for batch, files in sorted(self._files_by_batch(output).items())
            if batch not in before
        ]

    @staticmethod
    def _files_by_batch(output: Path) -> dict[int, list[str]]:
        """The names of the files that each micro-batch wrote, from the sink's log."""
        entries = {
            int(path.name.removesuffix(".compact")): path
            for path in (output / "_spark_metadata").glob("[0-9]*")
        }
        found: dict[int, list[str]] = {}
        known: set[str] = set()
        for batch in sorted(entries):
            # A compacted entry has those of all before it too.
            _, *lines = entries[batch].read_text().splitlines()
            names = [Path(json.loads(line)["path"]).name for line in lines]
            found[batch] = [name for name in names if name not in known]
            known.update(names)
        return found


@pytest.fixture
def stream_class() -> type[Stream]:
    return FileStream
