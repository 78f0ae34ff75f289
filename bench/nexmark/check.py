"""Whether what a query emitted is what the events make of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import TimestampType

from bench.nexmark.events import SCHEMAS
from bench.nexmark.inputs import WATERMARK, Inputs, Query, Way
from bench.session import configured


def emitted(spark: SparkSession, way: Way, folder: Path, checkpoint: Path) -> list[Row]:
    """Runs a streaming query over a folder; the rows in the order in which they came."""
    rows: list[Row] = []
    with configured(spark, way.settings):
        query = (
            way.build(Inputs(spark, folder))
            .writeStream.outputMode(way.mode)
            .option("checkpointLocation", str(checkpoint))
            .foreachBatch(lambda df, _: rows.extend(df.collect()))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return rows


def check(spark: SparkSession, query: Query, way: Way, folder: Path, checkpoint: Path) -> None:
    """Compares what a query emits with SQL over the same events.

    Raises:
        AssertionError: they differ.
    """
    if query.by_clock:
        rows = way.build(Inputs(spark, folder, streaming=False)).collect()
    else:
        rows = emitted(spark, way, folder, checkpoint)
    compare(spark, query, rows, folder, _watermark(query, folder), way.picks)


def check_peer(spark: SparkSession, query: Query, file: Path, folder: Path, behind: int) -> None:
    """The same for what another system emitted, which it wrote as JSON, with times in ms.

    Args:
        behind: how many ms its watermark is behind the last event.
    """
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    times = {f.name for f in expected(spark, query, folder).schema if f.dataType == TimestampType()}
    for row in rows:
        row.update((name, datetime.fromtimestamp(row[name] / 1000)) for name in times)
    compare(spark, query, rows, folder, _last(query, folder, -1) - behind)


def expected(spark: SparkSession, query: Query, folder: Path) -> DataFrame:
    """What SQL makes of the events."""
    events = Inputs(spark, folder, streaming=False)
    for kind in SCHEMAS:
        getattr(events, kind).createOrReplaceTempView(kind)
    return spark.sql(query.expected)


def compare(
    spark: SparkSession,
    query: Query,
    rows: Sequence[Row | Mapping[str, Any]],
    folder: Path,
    watermark: int,
    picks: bool = False,
) -> None:
    """Compares what was emitted until the watermark with SQL.

    Raises:
        AssertionError: they differ.
    """
    by_sql = expected(spark, query, folder)
    columns = [name for name in by_sql.columns if name != "known"]
    if query.final:
        rows = list({tuple(row[name] for name in query.final): row for row in rows}.values())
    found = Counter(tuple(row[name] for name in columns) for row in rows)
    all_rows = by_sql.select("known", *columns).collect()
    wrong = found - Counter(_tuple(row) for row in all_rows)
    known = Counter(_tuple(row) for row in all_rows if (row.known or 0) <= watermark)
    missing = known - found
    assert not wrong, f"{query.name}: emitted, but wrong: {list(wrong)[:3]}"
    assert picks or not missing, f"{query.name}: {missing.total()} missing, as {list(missing)[:3]}"
    assert known and found, f"{query.name} has no results"


def _tuple(row: Any) -> tuple[Any, ...]:
    return tuple(row)[1:]


def _watermark(query: Query, folder: Path) -> int:
    """What it is in ms when the last micro-batch begins.

    Of two operators in a row the second's timers may wait for one more micro-batch.
    """
    return _last(query, folder, -2) - int(WATERMARK.split()[0]) * 1000


def _last(query: Query, folder: Path, file: int) -> int:
    """When the last event of a file was in ms, of the kind that was behind."""
    last = []
    for kind in query.inputs:
        path = sorted((folder / kind).glob("*.parquet"))[file]
        last.append(pq.read_table(path, columns=["dateTime"])["dateTime"][-1].value // 1000)
    return int(min(last))
