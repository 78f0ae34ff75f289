"""A query whose function fails, for what a terminal shows of it: see test_terminal.py."""

from __future__ import annotations

import sys
from typing import Any

import keystate
from pyspark.sql import SparkSession


class Scores(keystate.KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.user, self.score(row)

    def score(self, row: Any) -> int:
        return {"a": 1}[row.kind]


def main(folder: str) -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    spark = keystate.configure(builder).getOrCreate()
    rows = spark.readStream.schema("user bigint, kind string").json(f"{folder}/in")
    scores = keystate.keyed(rows, "user").process(Scores(), "user bigint, score int")
    writer = scores.writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
