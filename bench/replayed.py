"""Runs a batch of the query of `bench.why` again for its key, and prints it, as applications do.

python -m bench.replayed INPUT CHECKPOINT BATCH SETTINGS
"""

from __future__ import annotations

import json
import sys

import keystate
from pyspark.sql import SparkSession

from bench.rescale import keyed

KEY = 7
SCHEMA = "key long, value long"


def main(files: str, checkpoint: str, batch: str, settings: str) -> None:
    builder = SparkSession.builder.master("local[2]").config(map=json.loads(settings))
    spark = keystate.configure(builder).getOrCreate()
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(files)
    print(keystate.replay(keyed(source), checkpoint, batch=int(batch), key=KEY), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
