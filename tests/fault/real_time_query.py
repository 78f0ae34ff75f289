"""A query in real-time mode. As a script it is the driver that a test kills: FOLDER ROWS"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import keystate
from pyspark.sql import SparkSession

from tests.fault import sessions
from tests.query.test_real_time import Count
from tests.real_time import MIN_DURATION, Source, start


def rows(count: int) -> list[tuple[int, int]]:
    return [(i * 31 % 17, i) for i in range(count)]


def begin(spark: SparkSession, source: Source, folder: Path, duration: str) -> Any:
    out = keystate.keyed(source.rows(), "key").process(Count(folder / "noted"), "key long, n long")
    return start(out, folder, duration)


def main() -> None:
    builder = sessions.builder("local[2]", 1).config(MIN_DURATION, "100")
    spark = keystate.configure(builder).getOrCreate()
    source = Source(spark)
    query = begin(spark, source, Path(sys.argv[1]), "2 seconds")
    for row in rows(int(sys.argv[2])):
        source.add([row])
        time.sleep(0.005)
    query.awaitTermination()


if __name__ == "__main__":
    main()
