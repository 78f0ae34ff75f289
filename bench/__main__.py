"""Runs the workloads and prints a table: python -m bench [W1 W3 ...] [--scale 0.1] [--reps 3].

Each throughput figure is a whole streaming query, from start to end, over one micro-batch into the
noop sink; the median of the repetitions, which the contenders run in turns after a round that
warms up. Slow peers get a part of the rows and, in proportion, of the keys; `rows` says how many.
Needs what `make bench` installs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench import plot
from bench.session import Measured, bench_session, measure, write
from bench.workloads import KEYSTATE, Workload, average, lists, overhead, recent, words
from bench.workloads import reducing as reducing_state

THROUGHPUT = [average.W1, words.W2, average.W3, lists.W4, reducing_state.W5, recent.W8]
FLINK = {"PyFlink, threads": ("thread", 0.05), "PyFlink, processes": ("process", 0.02)}
NAMES = [*(w.name for w in THROUGHPUT), "W6", "W7", "W9"]

Result = dict[str, Any]


def throughput(
    spark: SparkSession,
    work: Path,
    workload: Workload,
    scale: float,
    reps: int,
    pyflink: str | None,
) -> list[Result]:
    print(f"\n{workload.name}  {workload.title}")
    folder = work / workload.name
    sizes, inputs = {}, {}
    for name, contender in workload.contenders.items():
        rows = int(workload.rows * contender.share * scale)
        keys = max(1, int(workload.keys * contender.share * scale))
        if (rows, keys) not in inputs:
            table, expected = workload.make(rows, keys)
            inputs[rows, keys] = write(folder / str(rows), table), expected
        sizes[name] = rows, keys
    runs: dict[str, list[Measured]] = {name: [] for name in sizes}
    # In turns, so that all run on an equally warm JVM; the first round is for that alone.
    for round_ in range(1 + reps):
        for name, contender in workload.contenders.items():
            data, expected = inputs[sizes[name]]
            run = measure(spark, contender.build, data, dict(contender.settings))
            if contender.checked and run.emitted != expected:
                sys.exit(
                    f"{workload.name}, {name}: emitted {run.emitted} rows, expected {expected}"
                )
            if round_ > 0:
                runs[name].append(run)
    shutil.rmtree(folder)
    if pyflink is not None and workload is average.W1:
        for name, (mode, share) in FLINK.items():
            sizes[name] = int(workload.rows * share * scale), int(workload.keys * share * scale)
            runs[name] = flink(pyflink, mode, *sizes[name], reps)
    results = [_result(workload, name, *sizes[name], runs[name]) for name in sizes]
    _table(results)
    return results


def flink(python: str, mode: str, rows: int, keys: int, reps: int) -> list[Measured]:
    """Runs W1 in PyFlink; what CPU it took is not known, for its workers end with their job."""
    script = Path(__file__).with_name("flink_average.py")
    command = [python, str(script), mode, "rocksdb", str(rows), str(keys), str(reps)]
    # Its thread mode looks for the first python there is.
    path = f"{Path(python).absolute().parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True, check=True
    )
    seconds = json.loads(done.stdout.rsplit("seconds", 1)[1])
    return [Measured(each, cpu=0.0, emitted=0) for each in seconds]


def _result(workload: Workload, name: str, rows: int, keys: int, runs: list[Measured]) -> Result:
    seconds = statistics.median(run.seconds for run in runs)
    cpu = statistics.median(run.cpu for run in runs)
    return {
        "workload": workload.name,
        "title": workload.title,
        "name": name,
        "rows": rows,
        "keys": keys,
        "seconds": round(seconds, 3),
        "rows_per_s": round(rows / seconds),
        "us_per_row": round(seconds / rows * 1e6, 2),
        "cpu_us_per_row": round(cpu / rows * 1e6, 2),
        "worker_mb": round(max(run.rss for run in runs)),
    }


def _table(results: list[Result]) -> None:
    ours = next(r for r in results if r["name"] == KEYSTATE)
    print(f"  {'':36} {'rows':>9} {'rows/s':>10} {'us/row':>8} {'CPU us':>7} {'keystate is':>12}")
    for r in results:
        ratio = r["us_per_row"] / ours["us_per_row"]
        r["keystate_is"] = round(ratio, 2)
        cpu = f"{r['cpu_us_per_row']:.2f}" if r["cpu_us_per_row"] else ""
        told = "" if r is ours else f"{ratio:.1f} x as fast"
        print(
            f"  {r['name']:36} {r['rows']:>9,} {r['rows_per_s']:>10,} {r['us_per_row']:>8.2f} "
            f"{cpu:>7} {told:>12}",
            flush=True,
        )


def held_keys(spark: SparkSession, work: Path, scale: float) -> list[Result]:
    """W6: the time of a batch by how many keys are held, of which it touches few."""
    touched = int(overhead.TOUCHED * scale)
    print(f"\nW6  batches that touch {touched:,} of the keys held")
    results = []
    for name, backend in overhead.BACKENDS.items():
        for held in (int(keys * scale) for keys in overhead.HELD):
            folder = work / "W6"
            checkpoint = folder / "checkpoint"
            settings = {"spark.keystate.backend": backend}
            data = write(folder / "data", overhead.all_keys(held), 1)
            batches = overhead.HELD_BATCHES
            more = write(folder / "more", overhead.some_keys(held, batches, touched), batches)
            for i, path in enumerate(sorted(more.iterdir())):
                path.rename(data / f"1{i:05}.parquet")
            run = measure(
                spark,
                average.with_keystate,
                data,
                settings,
                files_per_batch=1,
                checkpoint=checkpoint,
            )
            shutil.rmtree(folder)
            ms = statistics.median(run.batches[1:])
            results.append(
                {
                    "workload": "W6",
                    "name": name,
                    "keys": held,
                    "first_batch_ms": run.batches[0],
                    "ms_per_batch": ms,
                    "worker_mb": round(run.rss),
                }
            )
            print(
                f"  {name:36} {held:>10,} keys: {ms:>8,.0f} ms a batch; first batch, of all keys: "
                f"{run.batches[0]:,} ms; a worker has up to {run.rss:,.0f} MB",
                flush=True,
            )
    return results


def tiny_batches(spark: SparkSession, work: Path, scale: float) -> list[Result]:
    """W7: what a micro-batch costs however small it is."""
    batches = max(5, int(overhead.TINY_BATCHES * scale))
    print(f"\nW7  {batches} batches of {overhead.TINY_ROWS} rows")
    data = write(work / "W7", overhead.some_keys(1000, batches, overhead.TINY_ROWS), batches)
    results = []
    for name, contender in overhead.TINY.items():
        run = measure(spark, contender.build, data, dict(contender.settings), files_per_batch=1)
        ms = statistics.median(run.batches[2:])
        results.append({"workload": "W7", "name": name, "ms_per_batch": ms})
        print(f"  {name:36} {ms:>8,.0f} ms a batch", flush=True)
    return results


def flights() -> list[Result]:
    """W9: the demo, which streams a year of flights, in a process of its own."""
    print("\nW9  the flights demo")
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "examples.flights"], check=True, capture_output=True)
    seconds = time.perf_counter() - started
    print(f"  {seconds:.0f} s, start of Spark and comparison with SQL included")
    return [{"workload": "W9", "name": KEYSTATE, "seconds": round(seconds, 1)}]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="W", help=f"of {', '.join(NAMES)}; all")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the rows and keys")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--pyflink", metavar="PYTHON", help="a Python with apache-flink, for W1")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="for JSON and plot")
    arguments = parser.parse_args()
    wanted = arguments.workloads or NAMES
    unknown = set(wanted) - set(NAMES)
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")

    results: list[Result] = []
    with bench_session() as (spark, work):
        for workload in THROUGHPUT:
            if workload.name in wanted:
                results += throughput(
                    spark, work, workload, arguments.scale, arguments.reps, arguments.pyflink
                )
        if "W6" in wanted:
            results += held_keys(spark, work, arguments.scale)
        if "W7" in wanted:
            results += tiny_batches(spark, work, arguments.scale)
    if "W9" in wanted:
        results += flights()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "results.json").write_text(json.dumps(results, indent=1))
    plot.throughput(results, arguments.out / "throughput.png")
    print(f"\nwritten to {arguments.out}")


if __name__ == "__main__":
    main()
