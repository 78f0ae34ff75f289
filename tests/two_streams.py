"""A streaming query over two inputs, of which each gets a file in every micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Row


class TwoStreams:
    """Two streams of the fixture ``stream``, and a checkpoint of the query over both."""

    def __init__(self, stream: Callable[[str], Any], first: str, second: str) -> None:
        self.inputs = (stream(first), stream(second))
        #: May be set, to begin anew.
        self.checkpoint = self.inputs[0].checkpoint
        self.progress: list[Any] = []

    def feed(self, *batches: tuple[list[Any], list[Any]]) -> None:
        """Adds micro-batches: the rows of the first input and those of the second."""
        for rows in batches:
            for stream, mine in zip(self.inputs, rows):
                stream.feed(mine)

    def sources(self) -> list[DataFrame]:
        return [
            s._spark.readStream.schema(s._schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(s._input))
            for s in self.inputs
        ]

    def run(self, build: Callable[[DataFrame, DataFrame], DataFrame]) -> list[list[Row]]:
        """Processes what was fed; returns what each micro-batch emitted."""
        first = self.inputs[0]
        first.checkpoint = self.checkpoint
        emitted: list[list[Row]] = first.micro_batches(build(*self.sources()))
        self.progress = first.progress
        return emitted
