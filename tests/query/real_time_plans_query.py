"""Runs queries in real-time mode whose batches have three stages, and prints what they emit.

The stages of a batch run at the same time, so this needs a core more than the tests' own session.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import keystate
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.query.test_real_time import Count, batches
from tests.real_time import MIN_DURATION, Source, lines, start, wait_for


def count(rows: DataFrame, key: str = "key", schema: str = "key long, x long") -> DataFrame:
    return keystate.keyed(rows, key).process(Count(), schema)


#: Each with how many rows it emits.
PLANS: dict[str, tuple[Callable[[DataFrame], DataFrame], int]] = {
    "dropDuplicates, then a function": (lambda rows: count(rows.dropDuplicates(["key"])), 3),
    "an aggregation, then a function": (
        lambda rows: keystate.keyed(rows.groupBy("key").agg(F.sum("x").alias("x")), "key").filter(
            lambda row: row.x > 2
        ),
        3,
    ),
    "a function, then another by its result": (lambda rows: count(count(rows), "x"), 5),
    "a function, then an aggregation": (
        lambda rows: count(rows).groupBy("key").agg(F.sum("x").alias("x")),
        5,
    ),
}


def main(folder: Path) -> None:
    builder = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config(MIN_DURATION, "100")
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    spark = keystate.configure(builder).getOrCreate()
    emitted = {}
    for number, (name, (build, expected)) in enumerate(PLANS.items()):
        own = folder / str(number)
        own.mkdir()
        source = Source(spark)
        query = start(build(source.rows()), own, "1 second")
        for row in [(1, 1), (2, 2), (1, 3)]:
            source.add([row])
        wait_for(query, lambda query=query: batches(query) > 1)
        source.add([(3, 4), (1, 5)])
        out = own / "out"
        wait_for(query, lambda out=out, expected=expected: len(lines(out)) >= expected)
        ended = batches(query)
        wait_for(query, lambda query=query, ended=ended: batches(query) > ended + 1)
        query.stop()
        emitted[name] = lines(out)
    print(json.dumps(emitted))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
