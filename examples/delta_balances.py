"""Keeps the balance of each account in a Delta Lake table, exactly once.

python -m examples.delta_balances INPUT TABLE CHECKPOINT [--partitions 2] [--once] [--append]

INPUT is a folder of JSON files with account, number and amount. TABLE and CHECKPOINT are folders.

The state is exactly once. If the driver dies after Delta has a micro-batch and before Spark's
commit log has it, the next start runs that batch again, with any number of partitions, and gets the
same rows. So the table has to take a batch once:

- A MERGE in `foreachBatch` goes with the query's id and the batch's (`txnAppId`, `txnVersion`).
  Delta writes them in the same commit, and does nothing for a batch that the table already has.
  Here it matters: `changes` counts in how many batches an account changed, so it would be wrong
  if a batch was merged twice.
- `--append` adds each result to the table instead, by Delta's own sink, which does the same by
  itself.

What Delta skips it does not read, but a query has its next state only if all results were computed.
`write_outputs` computes them before it calls `Upsert`.

Spark needs Delta's package for this: spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ResultDataFrame, ValueStateDescriptor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

TRANSACTION = "spark.databricks.delta.write."


class Balance(KeyedProcessFunction):
    """Emits how many entries the account has had, and the sum of their amounts."""

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(
            ValueStateDescriptor("balance", "entries long, balance long", default=(0, 0))
        )

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int, int]]:
        entries, balance = self.state.value()
        self.state.update((entries + 1, balance + row.amount))
        yield row.account, entries + 1, balance + row.amount


class Upsert:
    """Merges the last result of each account into the table."""

    def __init__(self, table: str) -> None:
        self.table = table

    def __call__(self, rows: DataFrame, batch: int) -> None:
        # A session of this query's own.
        spark = rows.sparkSession
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.table} "
            "(account STRING, entries BIGINT, balance BIGINT, changes BIGINT) USING delta"
        )
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        spark.conf.set(TRANSACTION + "txnAppId", query)
        spark.conf.set(TRANSACTION + "txnVersion", batch)
        last = rows.groupBy("account").agg(
            F.max("entries").alias("entries"), F.max_by("balance", "entries").alias("balance")
        )
        spark.sql(
            f"""
            MERGE INTO {self.table} AS t USING {{last}} AS s ON t.account = s.account
            WHEN MATCHED THEN UPDATE SET
              entries = s.entries, balance = s.balance, changes = t.changes + 1
            WHEN NOT MATCHED THEN INSERT (account, entries, balance, changes)
              VALUES (s.account, s.entries, s.balance, 1)
            """,
            last=last,
        )


def results(spark: SparkSession, folder: str) -> ResultDataFrame:
    """The balance of an account after each of its entries; a file is a micro-batch."""
    entries = (
        spark.readStream.schema("account string, number long, amount long")
        .option("maxFilesPerTrigger", 1)
        .json(folder)
    )
    return keystate.keyed(entries, "account", order_by="number").process(
        Balance(), "account string, entries long, balance long"
    )


def writer(balances: ResultDataFrame, folder: str, append: bool) -> DataStreamWriter:
    """Writes into the table in a folder."""
    if append:
        return balances.writeStream.format("delta").option("path", folder)
    return balances.write_outputs(Upsert(f"delta.`{folder}`"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("input")
    parser.add_argument("table")
    parser.add_argument("checkpoint")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--once", action="store_true", help="end when all is processed")
    parser.add_argument("--append", action="store_true", help="each result, not each account")
    args = parser.parse_args()

    builder = (
        SparkSession.builder.config("spark.sql.shuffle.partitions", args.partitions)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    )
    spark = keystate.configure(builder).getOrCreate()
    trigger: dict[str, Any] = (
        {"availableNow": True} if args.once else {"processingTime": "0 seconds"}
    )
    query = (
        writer(results(spark, args.input), args.table, args.append)
        .option("checkpointLocation", args.checkpoint)
        .trigger(**trigger)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
