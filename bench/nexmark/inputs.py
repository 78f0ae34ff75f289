"""What a query reads, and what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.nexmark.events import SCHEMAS

WATERMARK = "4 seconds"


class Inputs:
    """The people, auctions and bids of a folder that Events.cached wrote."""

    def __init__(self, spark: SparkSession, folder: Path, *, streaming: bool = True) -> None:
        self._spark = spark
        self._folder = folder
        self._streaming = streaming

    @property
    def person(self) -> DataFrame:
        return self._read("person")

    @property
    def auction(self) -> DataFrame:
        return self._read("auction")

    @property
    def bid(self) -> DataFrame:
        return self._read("bid")

    def _read(self, kind: str) -> DataFrame:
        path = str(self._folder / kind)
        if not self._streaming:
            return self._spark.read.schema(SCHEMAS[kind]).parquet(path)
        # One file a micro-batch, so that all inputs are in the same time.
        reader = self._spark.readStream.option("maxFilesPerTrigger", 1)
        return reader.schema(SCHEMAS[kind]).parquet(path)


def in_time(df: DataFrame) -> DataFrame:
    """With the watermark that the reference has."""
    return df.withWatermark("dateTime", WATERMARK)


@dataclass(frozen=True)
class Way:
    """One way to write a query.

    Attributes:
        build: makes it.
        mode: its output mode.
        settings: Spark settings.
        share: which part of the events it gets; the slow ones would take all day.
        picks: whether it emits only one of several results that tie.
    """

    build: Callable[[Inputs], DataFrame]
    mode: str = "append"
    settings: dict[str, str] = field(default_factory=dict)
    share: float = 1.0
    picks: bool = False


@dataclass(frozen=True)
class Query:
    """One of the queries.

    Attributes:
        inputs: which kinds of events it reads.
        expected: its results in SQL over the views `person`, `auction` and `bid`. A column `known`
            has the time in ms that the watermark passes before a row is emitted, null for none.
            What ties leave open has no column.
        final: of the rows that are emitted, the last one for each value of these columns counts.
        by_clock: what it emits depends on when it runs, so it is checked as a batch.
    """

    name: str
    title: str
    inputs: tuple[str, ...]
    expected: str
    final: tuple[str, ...] = ()
    by_clock: bool = False
