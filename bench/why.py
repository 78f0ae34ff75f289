"""How long it takes to see what happened to one key, in a checkpoint with much state.

python -m bench.why [--keys 1000000] [--batches 100] [--times 20] [--replays 5] [--delay 30]

A query over files takes a row for each key, and then so many batches of ten rows, each of which
changes one key that is looked for. `admin.history` reads what that key had in all versions, and
`keystate.replay` runs batches of its again; what one ends with is compared with the checkpoint.
The first call is given beside the median of the others: it loads classes. Last, a program of its
own makes a session and runs a batch again, as often as `--replays`: the time until its first row is
shown is from the start of that program, without and with the archive of classes that
`keystate warm-up` makes. All of it on a local disk, and where each request of the
checkpoint's store takes a while (bench/object_store.py); the query itself runs there without delay.
Compile the Scala tests first: ./sbt Test/compile.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
from keystate import admin
from pyspark.sql import DataFrame, SparkSession

from bench.object_store import DELAY, store_settings
from bench.replayed import KEY, SCHEMA
from bench.rescale import BACKEND, OURS, keyed
from bench.session import PROVIDER, bench_session, configured


def built(spark: SparkSession, folder: Path, checkpoint: str, keys: int, batches: int) -> DataFrame:
    """Runs the query; returns its operator."""
    files = folder / "input"
    files.mkdir(parents=True)
    first = spark.range(keys).selectExpr("id AS key", "1L AS value")
    first.coalesce(1).write.parquet(str(folder / "first"))
    for path in (folder / "first").glob("part-*.parquet"):
        path.rename(files / "000000.parquet")
    for batch in range(1, batches + 1):
        rows = [(KEY, batch), *((KEY + batch * 10 + i, 1) for i in range(1, 10))]
        made = folder / f"batch{batch}"
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(str(made))
        time.sleep(0.002)  # the file source goes by times in ms
        for path in made.glob("part-*.parquet"):
            path.rename(files / f"{batch:06}.parquet")
        (files / f"{batch:06}.parquet").touch()
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(files))
    made_of = keyed(source)
    query = (
        made_of.writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return made_of


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and what it gives."""
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def first_shown(
    folder: Path, checkpoint: str, batch: int, settings: dict[str, str], caches: Path
) -> float:
    """Seconds from the start of a program until it shows the first row of a replay.

    Args:
        folder: where the query's input is.
        checkpoint: the query's.
        batch: the micro-batch.
        settings: of the program's session.
        caches: its user's folder of caches.
    """
    command = [sys.executable, "-m", "bench.replayed", str(folder / "input"), checkpoint]
    start = time.perf_counter()
    with subprocess.Popen(
        [*command, str(batch), json.dumps(settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=with_caches(caches),
        text=True,
    ) as program:
        assert program.stdout is not None
        shown = next((line for line in program.stdout if f"Row(key={KEY}" in line), None)
        seconds = time.perf_counter() - start
        program.stdout.read()
    assert shown is not None and f"value={batch}" in shown, shown
    assert program.returncode == 0
    return seconds


def with_caches(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(folder)}


def measure(
    spark: SparkSession,
    work: Path,
    backend: str,
    delay: int,
    store: dict[str, str],
    caches: list[Path],
    args: argparse.Namespace,
) -> str:
    """A row of the table for one backend and store.

    Args:
        spark: the session.
        work: where folders are made.
        backend: Keystate's.
        delay: of a request, in ms; 0 for the local disk.
        store: the settings of the session that has the store with delays; for the local disk none.
        caches: folders of caches for the programs, without and with the archive of classes.
        args: of the command.
    """
    folder = Path(tempfile.mkdtemp(dir=work))
    checkpoint = f"{'objects://' if delay else ''}{folder}/checkpoint"
    waiting = {DELAY: str(delay)}
    try:
        with configured(spark, {PROVIDER: OURS, BACKEND: backend, DELAY: "0"}):
            query = built(spark, folder, checkpoint, args.keys, args.batches)
            taken, replays = [], []
            with configured(spark, waiting):
                for _ in range(args.times):
                    seconds, found = timed(lambda: admin.history(checkpoint, key=KEY))
                    assert len(found) == found[-1].version - found[0].version + 1
                    assert all(one.changes for one in found), found
                    taken.append(seconds)
                batches = range(args.batches - args.replays, args.batches)
                for batch in batches:
                    seconds, made = timed(
                        lambda: keystate.replay(query, checkpoint, batch=batch, key=KEY)  # noqa: B023
                    )
                    assert made.same and len(made) == 1, made
                    replays.append(seconds)
        settings = {**store, **{f"spark.hadoop.{key}": value for key, value in waiting.items()}}
        programs = [
            [first_shown(folder, checkpoint, batch, settings, cache) for batch in batches]
            for cache in caches
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cells = [f"{each[0]:.2f} | {statistics.median(each[1:]):.2f}" for each in (taken, replays)]
    where = f"{delay} ms a request" if delay else "local"
    cells += [f"{statistics.median(each):.1f}, at most {max(each):.1f}" for each in programs]
    return f"| {backend}, {where} | {len(found)} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--times", type=int, default=20, help="how many histories")
    parser.add_argument("--replays", type=int, default=5, help="how many replays, at least 2")
    parser.add_argument("--delay", type=int, default=30, help="of each request, in ms")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as classes:
        store = store_settings(Path(classes))
        caches = [Path(classes, name) for name in ("cold", "warm")]
        warm_up = [sys.executable, "-m", "keystate", "warm-up"]
        subprocess.run(warm_up, env=with_caches(caches[1]), check=True, stdout=subprocess.DEVNULL)
        with bench_session(store) as (spark, work):
            rows = [
                measure(spark, work, backend, delay, store if delay else {}, caches, args)
                for delay in (0, args.delay)
                for backend in ("hashmap", "rocksdb")
            ]
    print(f"\n{args.keys:,} keys, in s\n")
    print(
        "| | versions | first `history` | median of the others | first `replay` | median "
        "| from the command to the first row | after `keystate warm-up` |"
    )
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
