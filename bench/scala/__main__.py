"""W1 in Scala against Spark's transformWithState: python -m bench.scala [--rows] [--keys] [--reps].

Both in one session of two cores, each on its provider; the median of the repetitions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import keystate

from bench.scala import SPARK_HOME, compile_program

SETTINGS = {
    "spark.sql.extensions": "org.apache.spark.sql.keystate.KeystateExtension",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--reps", type=int, default=3)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        jar = compile_program(Path(__file__).with_name("Average.scala"), Path(folder))
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"]
        command += ["--driver-memory", "3g", "--jars", str(keystate.jar_path())]
        for key, value in SETTINGS.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--class", "Average", str(jar), f"{folder}/run"]
        command += map(str, (wanted.rows, wanted.keys, wanted.reps))
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    results = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if len({result["kept"] for result in results}) != 1:
        sys.exit("the contenders do not keep the same number of keys")
    seconds = {
        name: statistics.median(r["seconds"] for r in results if r["name"] == name)
        for name in dict.fromkeys(result["name"] for result in results)
    }
    for name, median in seconds.items():
        ratio = median / seconds["keystate"]
        told = "" if name == "keystate" else f"   keystate is {ratio:.1f} x as fast"
        print(f"{name:20} {wanted.rows / median:>12,.0f} rows/s {median:8.2f} s{told}")


if __name__ == "__main__":
    main()
