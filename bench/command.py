"""How long the `keystate` command takes from its start to its end, with and without a session.

python -m bench.command [--keys 100000] [--repeat 5]

A query builds a checkpoint. Then `keystate inspect` and `keystate get` are run: in a JVM without
Spark for the first time, which makes the archive of its classes; then again with it; and with
`--conf`, for which they start a session.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.rescale import CONTENDERS, built
from bench.session import bench_session, configured

NAME = "Keystate heap"


def seconds(cache: Path, *arguments: str) -> float:
    """How long a command takes."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "keystate", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keystate-command-") as made:
        with bench_session() as (spark, _), configured(spark, CONTENDERS[NAME][1]):
            built(spark, Path(made), NAME, args.keys)
        checkpoint = str(Path(made, "checkpoint"))
        print("| | first time | next times, median | with a session, median |")
        print("|---|---|---|---|")
        commands = {"inspect": [checkpoint], "get": [checkpoint, "totals", "7"]}
        for name, given in commands.items():
            cache = Path(made, f"cache-{name}")
            first = seconds(cache, name, *given)
            again = [seconds(cache, name, *given) for _ in range(args.repeat)]
            session = ["--conf", "spark.ui.enabled=false"]
            whole = [seconds(cache, name, *given, *session) for _ in range(args.repeat)]
            medians = f"{statistics.median(again):.1f} s | {statistics.median(whole):.1f} s"
            print(f"| `keystate {name}` | {first:.1f} s | {medians} |")


if __name__ == "__main__":
    main()
