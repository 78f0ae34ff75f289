"""State that outgrows the heap, on the backend `auto`; and state that does not, beside `hashmap`.

python -m bench.auto [--keys 30000000] [--batch 2000000] [--updates 3] [--memory 256] [--heap 2g]
                     [--small 1000000] [--rounds 7] [--out FILE]

A query builds its state in batches of new keys over two partitions, then come batches of random
keys of all these, as in bench.larger_than_memory; then it starts again. Each batch is timed. It
belongs to a phase by where the stores are after it: on the heap, in RocksDB, or in both; a batch in
which a store moves has a phase of its own. A query that runs out of memory fails.

Then smaller queries, with so few keys that all stay on the heap, run on `auto` and `hashmap` in
turns, after a round that warms up: seconds of all batches, and the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.larger_than_memory import WARM_UP, run, take, write_batches
from bench.rescale import BACKEND, OURS, PARTITIONS, Contender, Query, keyed
from bench.session import CORES, PROVIDER, bench_session, configured

BATCHES_OF_SMALL = 5


def contender(backend: str, megabytes: int) -> Contender:
    """The query on a backend."""
    memory = {"spark.keystate.rocksdb.memoryMB": str(megabytes)}
    return keyed, {PROVIDER: OURS, BACKEND: backend, PARTITIONS: str(CORES), **memory}


def phase(moved: bool, on_disk: int, update: bool) -> str:
    """What a batch is counted under."""
    if moved:
        return "stores move"
    where = {0: "on the heap", CORES: "in RocksDB"}.get(on_disk, "one store in RocksDB")
    return f"{'known' if update else 'new'} keys, {where}"


def rates(progress: list[Any], updates: int) -> dict[str, float]:
    """Rows a second of each phase, from the progress of each batch."""
    seconds: dict[str, float] = {}
    rows: dict[str, int] = {}
    moves = 0
    for i, p in enumerate(progress):
        found = p.stateOperators[0].customMetrics
        total = found["keystateMoves"]
        name = phase(total > moves, found["keystateStoresOnDisk"], i >= len(progress) - updates)
        moves = total
        seconds[name] = seconds.get(name, 0) + p.durationMs["triggerExecution"] / 1000
        rows[name] = rows.get(name, 0) + p.numInputRows
    return {name: rows[name] / seconds[name] for name in rows}


def grown(
    spark: SparkSession, work: Path, keys: int, updates: int, megabytes: int
) -> dict[str, Any]:
    """The state that outgrows the heap."""
    build, settings = contender("auto", megabytes)
    folder = work / "query"
    with configured(spark, settings):
        take(work / "warm-up", folder)
        run(spark, build, folder, WARM_UP)
        shutil.rmtree(folder)
        take(work / "input", folder)
        progress = run(spark, build, folder, keys)
        found: dict[str, Any] = {"rows_per_s": rates(progress, updates)}
        query = Query(spark, folder, (build, settings), keys)
        for name in ("restart_s", "second_restart_s"):
            found[name] = query.restart(CORES)
    shutil.rmtree(folder)
    return found


def beside_hashmap(
    spark: SparkSession, work: Path, keys: int, rounds: int, megabytes: int
) -> dict[str, Any]:
    """The state that stays on the heap."""
    folder = work / "query"
    taken: dict[str, list[float]] = {"hashmap": [], "auto": []}
    for i in range(-1, rounds):
        # Each goes first as often as the other.
        for backend in sorted(taken, reverse=i % 2 == 0):
            build, settings = contender(backend, megabytes)
            take(work / "small", folder)
            with configured(spark, settings):
                progress = run(spark, build, folder, keys)
            shutil.rmtree(folder)
            assert not any(p.stateOperators[0].customMetrics["keystateMoves"] for p in progress)
            if i >= 0:
                taken[backend].append(
                    sum(p.durationMs["triggerExecution"] for p in progress) / 1000
                )
    ratios = [a / b for a, b in zip(taken["auto"], taken["hashmap"], strict=True)]
    return {"seconds": taken, "auto_to_hashmap": statistics.median(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=30_000_000)
    parser.add_argument("--batch", type=int, default=2_000_000)
    parser.add_argument("--updates", type=int, default=3, help="batches of random keys")
    parser.add_argument("--memory", type=int, default=256, help="spark.keystate.rocksdb.memoryMB")
    parser.add_argument("--heap", default="2g", help="of the JVM")
    parser.add_argument("--share", type=float, help="spark.keystate.auto.heapShare")
    parser.add_argument("--small", type=int, default=1_000_000, help="keys that fit on the heap")
    parser.add_argument("--rounds", type=int, default=7, help="of the small queries; 0: none")
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    args = parser.parse_args()
    share = {} if args.share is None else {"spark.keystate.auto.heapShare": str(args.share)}
    with bench_session({"spark.driver.memory": args.heap, **share}) as (spark, work):
        for name, keys, batch, updates in (
            ("warm-up", WARM_UP, WARM_UP, 0),
            ("input", args.keys, args.batch, args.updates),
            ("small", args.small, -(-args.small // BATCHES_OF_SMALL), args.updates),
        ):
            (work / name).mkdir()
            write_batches(spark, work / name, keys, batch, updates)
        found = grown(spark, work, args.keys, args.updates, args.memory)
        for name, rate in found["rows_per_s"].items():
            print(f"{name:32} {rate:12,.0f} rows/s", flush=True)
        print(f"restart: {found['restart_s']:.1f} s, again: {found['second_restart_s']:.1f} s")
        if args.rounds:
            small = beside_hashmap(spark, work, args.small, args.rounds, args.memory)
            print(f"{args.small:,} keys, auto to hashmap: {small['auto_to_hashmap']:.3f}")
            found["small"] = small
    if args.out:
        args.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
