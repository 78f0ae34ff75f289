"""Whether what a query emitted is what the events make of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Row, SparkSession

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
    events = Inputs(spark, folder, streaming=False)
    for kind in SCHEMAS:
        getattr(events, kind).createOrReplaceTempView(kind)
    expected = spark.sql(query.expected)
    columns = [name for name in expected.columns if name != "known"]
    if query.by_clock:
        rows = way.build(events).collect()
    else:
        rows = emitted(spark, way, folder, checkpoint)
    if query.final:
        rows = list({tuple(row[name] for name in query.final): row for row in rows}.values())
    found = Counter(tuple(row[name] for name in columns) for row in rows)
    all_rows = expected.select("known", *columns).collect()
    wrong = found - Counter(_tuple(row) for row in all_rows)
    watermark = _watermark(query, folder)
    known = Counter(_tuple(row) for row in all_rows if (row.known or 0) <= watermark)
    missing = known - found
    assert not wrong, f"{query.name}: emitted, but wrong: {list(wrong)[:3]}"
    assert way.picks or not missing, (
        f"{query.name}: {missing.total()} missing, as {list(missing)[:3]}"
    )
    assert known and found, f"{query.name} has no results"


def _tuple(row: Any) -> tuple[Any, ...]:
    return tuple(row)[1:]


def _watermark(query: Query, folder: Path) -> int:
    """What it is in ms when the last micro-batch begins.

    Of two operators in a row the second's timers may wait for one more micro-batch.
    """
    last = []
    for kind in query.inputs:
        before_last = sorted((folder / kind).glob("*.parquet"))[-2]
        last.append(pq.read_table(before_last, columns=["dateTime"])["dateTime"][-1].value // 1000)
    return int(min(last)) - int(WATERMARK.split()[0]) * 1000
