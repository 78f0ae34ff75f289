"""A rescale of many partitions, in a store where each request takes a while.

python -m bench.partitions [--partitions 1000:1500 10000:15000] [--folder /dev/shm]

Without Spark: a JVM of its own has the stores of one operator with 32,768 key groups, behind the
Hadoop file system of the tests (see bench/object_store.py). Each store has two states, a run of
70 kB in a file, and inline runs. Compile the Scala tests first: ./sbt Test/compile.

The heap is what is alive at most, above what was before, found by a second rescale during which the
heap is collected again and again. A load is the median of 21 partitions, after the rescale.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pyspark

from bench.store import driver_jar

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
MAIN = "org.apache.spark.sql.keystate.store.PartitionsBenchmark"


def measure(pair: str, checkpoint_format: int, args: argparse.Namespace) -> dict[str, float]:
    tests = driver_jar()
    main = next(jar for jar in tests.parent.glob("keystate-*.jar") if "-tests" not in jar.name)
    classpath = os.pathsep.join([str(tests), str(main), f"{SPARK_JARS}/*"])
    before, after = pair.split(":")
    inline = [str(args.runs), str(args.bytes)]
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        numbers = [str(args.delay), str(checkpoint_format), before, after, *inline]
        options = [f"-Xmx{args.heap}", f"-Djava.io.tmpdir={folder}", "-cp", classpath]
        command = ["java", *options, MAIN, folder, *numbers]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    line = next(line for line in output.splitlines() if line.startswith("answer "))
    figures: dict[str, float] = json.loads(line.removeprefix("answer "))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--partitions", nargs="+", default=["1000:1500", "10000:15000"])
    parser.add_argument("--formats", type=int, nargs="+", default=[1, 2], choices=[1, 2])
    parser.add_argument("--delay", type=int, default=30, help="of each request, in ms")
    parser.add_argument("--runs", type=int, default=4, help="inline runs of a partition")
    parser.add_argument("--bytes", type=int, default=8000, help="of an inline run")
    parser.add_argument("--heap", default="4g", help="of the JVM, at most")
    parser.add_argument("--folder", type=Path, help="of the store; in memory, disks don't count")
    args = parser.parse_args()
    for pair in args.partitions:
        for checkpoint_format in args.formats:
            figures = measure(pair, checkpoint_format, args)
            print(f"\n{pair}, checkpoint format {checkpoint_format}")
            for name, value in figures.items():
                print(f"  {name}: {value:,.1f}", flush=True)


if __name__ == "__main__":
    main()
