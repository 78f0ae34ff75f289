"""Savepoints of a running query: python -m bench.savepoint.

[--keys 1000000] [--rate 1000] [--seconds 30] [--backend auto] [--delay 30] [--store] [--out FILE]

A query builds its state in batches over two partitions, then takes a file with a tenth of a
second's rows ten times a second. Then three times, for so many seconds each: nothing else happens;
a savepoint by reference is made each two seconds; a copy is made, again and again. Figures are how
long micro-batches took, and how long a savepoint took and how many bytes it has of its own, with
those of the logs.

With --store the checkpoint is in a store of the tests that waits so many ms at each request
(`bench.object_store`), where savepoints by reference have references and not hard links. Compile
the Scala tests first: ./sbt Test/compile.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import keystate
from keystate import admin
from pyspark.sql import SparkSession

from bench.rescale import keyed
from bench.running import Feeder, add_store, arguments, scheme, session_of

EVERY = 2.0


def own_bytes(savepoint: Path) -> int:
    """Of the files that only it has."""
    files = [path.stat() for path in savepoint.rglob("*") if path.is_file()]
    return sum(file.st_size for file in files if file.st_nlink == 1)


def measured(
    spark: SparkSession, folder: Path, scheme: str, keys: int, rate: int, seconds: float
) -> dict[str, Any]:
    """What micro-batches and savepoints take."""
    inputs = folder / "input"
    inputs.mkdir(parents=True)
    feeder = Feeder(inputs, keys, rate)

    def take(df: Any, _: int) -> None:
        df.count()

    def place(name: str) -> str:
        return f"{scheme}{folder / name}"

    rows = spark.readStream.schema("key long, value long").parquet(str(inputs))
    writer = keyed(rows).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", place("checkpoint")).start()
    feeder.build(query)
    feeder.start()
    time.sleep(5)

    def batches(work: Any) -> list[float]:
        """How long micro-batches took, in ms, while something else is done in a thread."""
        over = threading.Event()
        thread = threading.Thread(target=work, args=(over,))
        seen: dict[int, float] = {}
        thread.start()
        ends = time.monotonic() + seconds
        first = query.lastProgress.batchId
        while time.monotonic() < ends:
            for progress in query.recentProgress:
                if progress.batchId > first and progress.numInputRows:
                    seen[progress.batchId] = float(progress.durationMs["triggerExecution"])
            time.sleep(0.5)
        over.set()
        thread.join()
        return list(seen.values())

    found: dict[str, list[float]] = {}

    def savepoints(name: str, by_reference: bool, pause: float, over: threading.Event) -> None:
        while not over.is_set():
            saved = folder / f"{name}{time.monotonic_ns()}"
            began = time.monotonic()
            admin.savepoint(
                place("checkpoint"), place(saved.name), by_reference=by_reference, spark=spark
            )
            found.setdefault(f"{name}_s", []).append(time.monotonic() - began)
            found.setdefault(f"{name}_bytes", []).append(own_bytes(saved))
            over.wait(max(0.0, pause - (time.monotonic() - began)))
            admin.delete(place(saved.name), spark=spark)

    def nothing(over: threading.Event) -> None:
        over.wait()

    found["batch_ms"] = batches(nothing)
    found["batch_by_reference_ms"] = batches(
        lambda over: savepoints("by_reference", True, EVERY, over)
    )
    found["batch_again_ms"] = batches(nothing)
    found["batch_copy_ms"] = batches(lambda over: savepoints("copy", False, 0.0, over))
    feeder.end()
    keystate.stop_after_batch(query)
    # The last one is looked at, and what it was made from is deleted.
    batch = admin.savepoint(place("checkpoint"), place("last"), by_reference=True, spark=spark)
    if scheme:
        admin.delete(place("checkpoint"), spark=spark)
    else:
        shutil.rmtree(folder / "checkpoint")
    counted = admin.read_state(spark, place("last"), state="totals").count()
    assert counted == keys, (batch, counted)
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    add_store(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, at = Path(place), scheme(args)
        with session_of(args, folder) as spark:
            measured(spark, folder / "warm-up", at, 10_000, args.rate, 3)
            found = measured(spark, folder / "query", at, args.keys, args.rate, args.seconds)
    for name, values in found.items():
        middle = statistics.median(values)
        print(f"{name:22} {len(values):3} times, median {middle:.2f}, most {max(values):.2f}")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
