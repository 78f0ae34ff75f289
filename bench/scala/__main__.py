"""W1 in Scala against Spark's transformWithState, or against another build of Keystate.

python -m bench.scala [--rows] [--keys] [--reps]    both in one session of two cores
python -m bench.scala --base a9e0e09 [--pairs]      a commit, or the folder of a clone with its jar

Against Spark it prints the medians of the repetitions. Against a base it measures in pairs, one
session of each, the order changing from pair to pair, and prints the median of their ratios: of the
seconds, and of the CPU seconds of the JVM, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import keystate

from bench.gate.__main__ import tree
from bench.scala import SPARK_HOME, compile_program

SETTINGS = {
    "spark.sql.extensions": "org.apache.spark.sql.keystate.KeystateExtension",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
CONTENDERS = "keystate,transformWithState"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scala",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--base", help="a commit, or the folder of a clone")
    parser.add_argument("--pairs", type=int, default=5)
    wanted = parser.parse_args()
    if wanted.base is None:
        against_spark(wanted)
    else:
        against(tree(wanted.base), wanted)


def run(keystate_jar: Path, wanted: argparse.Namespace, contenders: str) -> list[dict[str, Any]]:
    """What the program printed for each repetition of the contenders."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(__file__).with_name("Average.scala")
        jar = compile_program(source, Path(folder), keystate_jar)
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"]
        command += ["--driver-memory", "3g", "--jars", str(keystate_jar)]
        for key, value in SETTINGS.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--class", "Average", str(jar), f"{folder}/run"]
        command += map(str, (wanted.rows, wanted.keys, wanted.reps, contenders))
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    results = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if len({result["kept"] for result in results}) != 1:
        sys.exit("the contenders do not keep the same number of keys")
    return results


def against_spark(wanted: argparse.Namespace) -> None:
    """Prints the rows in a second, and how many times as fast Keystate is."""
    results = run(Path(keystate.jar_path()), wanted, CONTENDERS)
    seconds = {
        name: statistics.median(r["seconds"] for r in results if r["name"] == name)
        for name in dict.fromkeys(result["name"] for result in results)
    }
    for name, median in seconds.items():
        ratio = median / seconds["keystate"]
        told = "" if name == "keystate" else f"   keystate is {ratio:.1f} x as fast"
        print(f"{name:20} {wanted.rows / median:>12,.0f} rows/s {median:8.2f} s{told}")


def against(base: Path, wanted: argparse.Namespace) -> None:
    """Prints the seconds of each pair, and their ratio."""
    own = Path(keystate.jar_path())
    jars = [base / "python" / "keystate" / "jars" / own.name, own]
    ratios: dict[str, list[float]] = {"seconds": [], "cpu": []}
    for pair in range(wanted.pairs):
        results = {jar: run(jar, wanted, "keystate") for jar in jars[:: 1 if pair % 2 else -1]}
        told = []
        for what, found in ratios.items():
            before, after = (statistics.median(r[what] for r in results[jar]) for jar in jars)
            found.append(after / before)
            told.append(f"{what} {before:.2f} before, {after:.2f} after, {after / before:.3f}")
        print("; ".join(told), flush=True)
    for what, found in ratios.items():
        median = statistics.median(found)
        print(f"{what}: median {median:.3f}, of the pairs {min(found):.3f} to {max(found):.3f}")


if __name__ == "__main__":
    main()
