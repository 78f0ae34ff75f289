"""The balances of examples/delta_balances.py, each result appended to an Iceberg table.

    iceberg_query.py INPUT CHECKPOINT PARTITIONS [RESULT]

With RESULT it ends when all is processed, and writes what the table has: its rows, and the batch
that each of its snapshots notes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keystate
from pyspark.sql import SparkSession

from examples.delta_balances import results

#: In the catalog that the settings of the process name.
TABLE = "lake.accounts.balances"


def main() -> None:
    folder, checkpoint, partitions, *result = sys.argv[1:]
    builder = SparkSession.builder.config("spark.sql.shuffle.partitions", partitions)
    spark = keystate.configure(builder).getOrCreate()
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {TABLE} (account STRING, entries BIGINT, balance BIGINT)"
    )
    trigger: dict[str, Any] = {"availableNow": True} if result else {"processingTime": "0 seconds"}
    query = (
        results(spark, folder)
        .writeStream.format("iceberg")
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .toTable(TABLE)
    )
    query.awaitTermination()
    rows = [list(row) for row in spark.table(TABLE).collect()]
    snapshots = spark.table(f"{TABLE}.snapshots").orderBy("committed_at").collect()
    notes = [snapshot.summary["spark.sql.streaming.epochId"] for snapshot in snapshots]
    Path(*result).write_text(json.dumps([rows, notes]))


if __name__ == "__main__":
    main()
