"""Sinks that write each micro-batch once, for the outputs of one query."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    DeclarationError,
    FileSink,
    KeyedProcessFunction,
    OutputTag,
    TableSink,
    ValueStateDescriptor,
)
from keystate.kafka import ExactlyOnceSink
from pyspark.errors import StreamingQueryException

SCHEMA = "key long, value long"
ODD = OutputTag("odd", "key long, n long")
BIG = OutputTag("big", "value long")


class Counts(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        n = self.count.value() + 1
        self.count.update(n)
        yield row.key, n
        if n % 2:
            yield ODD, (row.key, n)
        if row.value > 100:
            yield BIG, row.value


@pytest.fixture
def table(spark: Any) -> Any:
    name = "big_values"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def run(fed: Any, main: Any, side_outputs: Any) -> None:
    """Writes what was fed and not yet processed."""
    source = (
        fed._spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(fed._input))
    )
    query = (
        keystate.keyed(source, "key")
        .process(Counts(), "key long, n long")
        .write_outputs(main, side_outputs)
        .option("checkpointLocation", str(fed.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.turns
@pytest.mark.parametrize("partitions", ["2", "5"])
def test_a_batch_that_is_run_again_is_written_once(
    partitions: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
    table: str,
) -> None:
    fed = stream(SCHEMA)
    counts, odd = str(tmp_path / "counts"), str(tmp_path / "odd")
    ran: list[int] = []

    def fails_once(sink: Any) -> Any:
        """Fails after all others have written the second batch, and it too."""

        def write(df: Any, batch_id: int) -> None:
            sink(df, batch_id)
            ran.append(batch_id)
            if ran == [0, 1]:
                raise OSError("down")

        return write

    def go_on() -> None:
        outputs = {
            ODD: FileSink(odd, "json", partition_by="key"),
            BIG: fails_once(TableSink(table, "batch")),
        }
        run(fed, FileSink(counts), outputs)

    fed.feed([(1, 5), (2, 500)], [(1, 700), (1, 7)], [(3, 1)])
    with pytest.raises(StreamingQueryException, match="down"):
        go_on()
    # The batch that is pending goes on with another number of partitions.
    settings(**{"spark.sql.shuffle.partitions": partitions})
    go_on()
    assert ran == [0, 1, 1, 2]
    fed.feed([(2, 900)])
    go_on()

    def rows(df: Any) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in df.collect())

    expected = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]
    assert rows(spark.read.parquet(counts)) == expected
    found = spark.read.schema("n long, key long").json(odd).select("key", "n")
    assert rows(found) == [(1, 1), (1, 3), (2, 1), (3, 1)]
    assert rows(spark.table(table)) == [(500, 0), (700, 1), (900, 3)]


def test_relative_paths(spark: Any, stream: Callable[..., Any], tmp_path: Path) -> None:
    """Of all outputs: they are below the folder where Spark was started, as Spark's own."""
    here = spark._jvm.System.getProperty("user.dir")
    places = [os.path.relpath(tmp_path / name, here) for name in ("counts", "odd")]
    fed = stream(SCHEMA)
    for rows in [(1, 5), (2, 500)], [(1, 700)]:
        fed.feed(rows)
        run(fed, FileSink(places[0]), {ODD: FileSink(places[1]), BIG: lambda df, batch: None})
    counts, odd = (spark.read.parquet(str(tmp_path / name)) for name in ("counts", "odd"))
    assert sorted(counts.collect()) == [(1, 1), (1, 2), (2, 1)]
    assert sorted(odd.collect()) == [(1, 1), (2, 1)]


def test_a_table_of_ones_own_and_batches_without_rows(
    spark: Any, stream: Callable[..., Any], table: str
) -> None:
    spark.sql(
        f"CREATE TABLE {table} (n BIGINT, `the batch` BIGINT, key BIGINT) USING orc "
        "PARTITIONED BY (`the batch`)"
    )
    sink = TableSink(table, "the batch")
    sink(spark.createDataFrame([(1, 10), (2, 20)], "key long, n long"), 4)
    sink(spark.createDataFrame([(3, 30)], "key long, n long"), 5)
    # The same batch with other rows, as of a function that is not deterministic: those count.
    sink(spark.createDataFrame([], "key long, n long"), 4)
    assert [tuple(row) for row in spark.table(table).select("key", "n").collect()] == [(3, 30)]


def test_what_does_not_fit_a_table(spark: Any, table: str) -> None:
    rows = spark.createDataFrame([(1, 10)], "key long, n long")
    with pytest.raises(DeclarationError, match="has a column 'N' of its own"):
        TableSink(table, "N")(rows, 0)
    assert not spark.catalog.tableExists(table)
    TableSink(table)(rows, 0)
    with pytest.raises(DeclarationError, match=r"has the columns \['key', 'n'\], and the output"):
        TableSink(table)(rows.withColumnRenamed("n", "other"), 1)


def test_options_of_files(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "text")
    sink = FileSink(path, "csv", header=True, sep=";")
    df = spark.createDataFrame([(1, 10)], "key long, n long").coalesce(1)
    for batch_id in (0, 0, 1):
        sink(df, batch_id)
    read = spark.read.csv(path, header=True, sep=";")
    assert [tuple(row) for row in read.collect()] == [("1", "10")] * 2


def test_a_format_that_has_no_files(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="'jdbc' is no format of files"):
        FileSink(str(tmp_path / "x"), "jdbc")(spark.range(1), 0)


def test_kafka_without_its_package(spark: Any, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("string(value) AS value")
    writer = ExactlyOnceSink("localhost:1", "topic").writer(rows)
    with pytest.raises(Exception, match="needs Spark's package for Kafka"):
        writer.option("checkpointLocation", str(tmp_path)).start()
