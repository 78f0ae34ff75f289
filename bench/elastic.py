"""How long a running query pauses when its partitions change: python -m bench.elastic.

[--keys 1000000] [--changes 10] [--rate 1000] [--backend auto] [--heap-share 0.4]
[--executors 2] [--store] [--delay 30] [--out FILE]

A query builds its state in batches over two partitions; then files with a tenth of a second's rows
come ten times a second, and the query is rescaled to 3, 2, 4, 2, ... partitions while it runs.
A pause is the time from the last row before a change until the first row after it, as a sink sees
them. Beside it: the time between two micro-batches without a change, and how long `rescale` took.
What came out is checked: each row once.

With --store the checkpoint is in a store of the tests that waits so many ms at each request.
Compile the Scala tests first: ./sbt Test/compile.
"""

from __future__ import annotations

import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import keystate
from pyspark.sql import SparkSession

from bench.rescale import keyed
from bench.running import Feeder, Sink, add_store, arguments, end, scheme, tell


def measured(
    spark: SparkSession, folder: Path, scheme: str, keys: int, changes: int, rate: int
) -> dict[str, list[float]]:
    """The pauses of a query."""
    inputs = folder / "input"
    inputs.mkdir(parents=True)
    feeder = Feeder(inputs, keys, rate)
    sink = Sink()

    def start() -> Any:
        rows = spark.readStream.schema("key long, value long").parquet(str(inputs))
        writer = keyed(rows).writeStream.foreachBatch(sink)
        return writer.option("checkpointLocation", f"{scheme}{folder / 'checkpoint'}").start()

    query = keystate.elastic(start, spark=spark)
    feeder.build(query)
    feeder.start()
    time.sleep(5)
    gaps = sink.gaps
    pauses, calls = [], []
    for partitions in islice(cycle((3, 2, 4, 2)), changes):
        began = time.monotonic()
        done = query.rescale(partitions)
        ended = time.monotonic()
        calls.append(ended - began)
        assert done.after == partitions
        pauses.append(sink.pause(began, ended))
        time.sleep(2)
    end(query, feeder, sink)
    return {"gap_s": gaps, "pause_s": pauses, "rescale_s": calls}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--changes", type=int, default=10)
    add_store(parser)
    args = parser.parse_args()

    def run(spark: SparkSession, folder: Path, keys: int, changes: int) -> dict[str, list[float]]:
        return measured(spark, folder, scheme(args), keys, changes, args.rate)

    tell(args, args.changes, run)


if __name__ == "__main__":
    main()
