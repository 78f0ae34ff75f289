"""An elastic query that changes its partitions again and again, to be killed.

python elastic_query.py FOLDER FORMAT BACKEND SEED
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

import keystate
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import SparkSession

from tests.fault import restart_query, sessions
from tests.fault.drivers import committed


def start(spark: SparkSession, folder: Path, **trigger: Any) -> Any:
    """Starts the query.

    A file whose micro-batch never began comes together with the next one: rows need an order.
    """
    return restart_query.start(spark, folder, order_by=["number"], **trigger)


def main(folder: Path, checkpoint_format: str, backend: str, seed: int) -> None:
    rng = random.Random(seed)
    settings = {FORMAT_KEY: checkpoint_format, "spark.keystate.backend": backend}
    spark = sessions.create("local[2]", 2, **settings)
    query = keystate.elastic(lambda: start(spark, folder, processingTime="0 seconds"), spark=spark)
    # However early it is killed: each driver gets on.
    begun_with = committed(folder)
    while committed(folder) == begun_with:
        time.sleep(0.02)
    while committed(folder) < restart_query.FILES:
        (folder / "rescales").touch()
        query.rescale(rng.randint(1, 6), timeout_seconds=rng.choice((0, 60)))
        (folder / "rescales").unlink()
        time.sleep(rng.uniform(0, 0.3))
    query.stop()
    print(f"changed {len(query.rescales)} times")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
