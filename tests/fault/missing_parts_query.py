"""Restarts queries in a session that lacks a part of Keystate; prints a JSON object of how it went.

python missing_parts_query.py FOLDER MISSING

MISSING is `jar`, which takes all that needs it along, or `extension`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ValueStateDescriptor
from keystate._jvm.session import PROVIDER, PROVIDER_KEY
from pyspark.sql import DataFrame, SparkSession

from tests.fault import sessions


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def keyed(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Count(), "key long, count long")


def grouped(df: DataFrame) -> DataFrame:
    return df.groupBy("key").count()


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {"keyed": keyed, "grouped": grouped}


def run(spark: SparkSession, folder: Path, kind: str) -> list[tuple[int, int]]:
    """Runs a query of this kind over what its folder has; returns what came out."""
    emitted: list[tuple[int, int]] = []
    stream = spark.readStream.schema("key long").parquet(str(folder / "input"))
    query = (
        QUERIES[kind](stream)
        .writeStream.outputMode("append" if kind == "keyed" else "update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(lambda df, _: emitted.extend(map(tuple, df.collect())))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(emitted)


def main() -> None:
    folder, missing = Path(sys.argv[1]), sys.argv[2]
    builder = sessions.builder("local[2]", 2)
    if missing == "extension":
        builder = builder.config("spark.jars", keystate.jar_path()).config(PROVIDER_KEY, PROVIDER)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    outcomes = {}
    for kind in QUERIES:
        try:
            outcomes[kind] = str(run(spark, folder / kind, kind))
        except Exception as e:
            outcomes[kind] = f"{getattr(e, 'code', type(e).__name__)}: {e}"
    (folder / f"no {missing}").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main()
