"""A streaming query whose clock is set by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql.utils import is_remote


def run_at(
    stream: Any,
    build: Callable[[DataFrame], DataFrame],
    batches: Iterable[tuple[int, list[Any]]],
    watch: Callable[[Any], None] = lambda progress: None,
) -> list[Row]:
    """Runs a query over batches of rows, each at its processing time in ms since the epoch.

    Args:
        stream: a stream of the fixture ``stream``, with everything processed that was fed.
        build: makes the result from the input.
        batches: times and rows.
        watch: is told the progress after each.
    """
    emitted: list[Row] = []
    spark = stream._spark
    if is_remote():
        pytest.skip("sets the clock of a query in its own process")
    source = spark.readStream.schema(stream._schema).parquet(str(stream._input))
    query = (
        build(source)
        .writeStream.outputMode("append")
        .option("checkpointLocation", str(stream.checkpoint))
        .foreachBatch(lambda df, _: emitted.extend(df.collect()))
        .start()
    )
    try:
        clock = _take_clock(spark, query)
        for time, rows in batches:
            clock.setTime(time)
            stream.feed(rows)
            # Twice: the first may be told of a look at the input before it was fed.
            query.processAllAvailable()
            query.processAllAvailable()
            watch(query.lastProgress)
    finally:
        query.stop()
    return emitted


def _take_clock(spark: Any, query: Any) -> Any:
    """Puts a clock of ours in the place of the query's, which has no batch to run yet."""
    query.processAllAvailable()
    clock = spark._jvm.org.apache.spark.util.ManualClock(0)
    execution = query._jsq.streamingQuery()
    kind = execution.getClass()
    taken = 0
    while kind is not None:
        for field in kind.getDeclaredFields():
            if field.getName().endswith("triggerClock"):
                field.setAccessible(True)
                field.set(execution, clock)
                taken += 1
        kind = kind.getSuperclass()
    assert taken > 0, "this version of Spark keeps a query's clock elsewhere"
    return clock
