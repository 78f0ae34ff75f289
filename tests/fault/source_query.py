"""The counter example as a driver that a test kills: python source_query.py FOLDER PARTITIONS"""

from __future__ import annotations

import sys

import keystate
from pyspark.sql import SparkSession

from examples import counter_source

UNTIL, ROWS = 8_000, 200


def main() -> None:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", sys.argv[2])
    )
    spark = keystate.configure(builder).getOrCreate()
    counter_source.start(spark, sys.argv[1], UNTIL, ROWS).awaitTermination()


if __name__ == "__main__":
    main()
