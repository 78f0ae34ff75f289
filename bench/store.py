"""State stores driven through Spark's StateStore API, one after the other in one session.

    python -m bench.store [--keys 1000000] [--operations 200000] [--only NAME ...]

No Python in the measured loops: a driver in Scala, from the tests' jar (built when it is missing),
does all operations on one store and returns the figures. Each provider first runs with a tenth of
the keys to warm up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import keystate
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
SPARK = "org.apache.spark.sql.execution.streaming.state."
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
OURS = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"

# What a provider is called here: its class and its settings.
PROVIDERS: dict[str, tuple[str, dict[str, str]]] = {
    "Keystate heap": (OURS, {"spark.keystate.backend": "hashmap"}),
    "Keystate RocksDB": (OURS, {"spark.keystate.backend": "rocksdb"}),
    "Spark HDFS-backed": (f"{SPARK}HDFSBackedStateStoreProvider", {}),
    "Spark RocksDB": (f"{SPARK}RocksDBStateStoreProvider", {CHANGELOG: "false"}),
    "Spark RocksDB changelog": (f"{SPARK}RocksDBStateStoreProvider", {CHANGELOG: "true"}),
}


def driver_jar() -> Path:
    """The jar of the tests; built if there is none or a source is newer."""
    sources = list((ROOT / "jvm/src").rglob("*.scala"))
    jars = sorted((ROOT / "jvm/target").rglob("keystate-*-tests.jar"))
    if not jars or jars[-1].stat().st_mtime < max(s.stat().st_mtime for s in sources):
        subprocess.run([str(ROOT / "sbt"), "jvm/Test/packageBin"], cwd=ROOT, check=True)
        jars = sorted((ROOT / "jvm/target").rglob("keystate-*-tests.jar"))
        # sbt leaves the jar as it is if the newer source is none of the tests.
        jars[-1].touch()
    return jars[-1]


def measure(spark: Any, name: str, keys: int, operations: int) -> dict[str, float]:
    """All figures of one provider."""
    provider, settings = PROVIDERS[name]
    benchmark = spark._jvm.org.apache.spark.sql.keystate.store.StoreBenchmark
    benchmark.run(provider, settings, max(keys // 10, 1000), max(operations // 2, 1000))
    return dict(benchmark.run(provider, settings, keys, operations))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--only", nargs="+", choices=PROVIDERS, default=list(PROVIDERS))
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    args = parser.parse_args()

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", str(driver_jar()))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
    )
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        figures = {}
        for name in args.only:
            figures[name] = measure(spark, name, args.keys, args.operations)
            print(f"# {name} done", flush=True)
    finally:
        spark.stop()

    print(f"\n{args.keys:,} keys held, {args.operations:,} operations a round\n")
    print("| |", " | ".join(figures), "|")
    print("|---|" + "---|" * len(figures))
    for figure in next(iter(figures.values())):
        print(f"| {figure} |", " | ".join(f"{row[figure]:,.0f}" for row in figures.values()), "|")
    if args.out:
        args.out.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
