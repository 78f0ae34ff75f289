"""Why did this happen? ``python -m examples.flights.why``: from a wrong row to its code.

The function of this page forgets that a night passes: a late arrival in the evening is carried into
the first departure of the next morning. It runs over four days, and is looked into.
"""

import argparse
from pathlib import Path

import keystate
from keystate import admin
from pyspark.sql import SparkSession

from .__main__ import session
from .legs import AircraftLegs
from .query import legs, start
from .workspace import Workspace


class Sleepless(AircraftLegs):
    """The bug: without ``ROTATION``."""

    def carried_delay(
        self, prev_arr_delay: int | None, gap: int | None, dep_delay: int
    ) -> int | None:
        if prev_arr_delay is None or gap is None:
            return None
        return max(0, min(prev_arr_delay, dep_delay))


def walk(spark: SparkSession, workspace: Workspace) -> None:
    """Runs the query with the bug, and finds out."""
    start(spark, workspace, Sleepless()).awaitTermination()
    result = spark.read.parquet(str(workspace.result))
    odd = result.orderBy("chain", "tailnum", ascending=False).first()
    tail, checkpoint = odd.tailnum, str(workspace.checkpoint)
    print(f"{tail}: {odd.chain} flights in a row carry a delay to the next. Since when?\n")
    for version in admin.history(checkpoint, key=tail):
        for change in version.changes:
            if change.state == "previous":
                print(f"batch {version.batch}: {change.after}")
                batch = version.batch

    print(f"\nWhich rows of batch {batch} did it?\n")
    was = keystate.replay(legs(spark, workspace, Sleepless()), checkpoint, batch=batch, key=tail)
    for step in was:
        print(step.what())
        for row in step.emitted:
            print(f"  {row.gap} minutes after the flight before: {row.carried} carried")
    print(was.verdict())

    print("\nWith a night between:\n")
    now = keystate.replay(legs(spark, workspace, AircraftLegs()), checkpoint, batch=batch, key=tail)
    print(now.verdict())
    mine, theirs = now.first_difference(was) or (None, None)
    if mine is not None and theirs is not None:
        print(f"The first row that differs: {mine.what()}")
        print(f"  carried {mine.emitted[0].carried} instead of {theirs.emitted[0].carried}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights.why", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/flights-why"), help="(%(default)s)")
    out = parser.parse_args().out
    workspace = Workspace(out, out / "checkpoint", days=4, days_per_file=1)
    workspace.clear()
    workspace.prepare()
    spark = session(2)
    walk(spark, workspace)
    spark.stop()


if __name__ == "__main__":
    main()
