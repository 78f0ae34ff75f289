"""What dead letters cost: W1 with and without them, in turns.

python -m bench.dead_letters [--pairs 5] [--share 0.001] [--scale 1.0]
python -m bench.dead_letters --worker [--pairs 9]

The last two ways have a side output that is read; in the last one a share of the rows fails. With
--worker it is the CPU time of what a worker does with a message of 100,000 rows, without Spark:
less is at work, so that it differs less from run to run. KEYSTATE_NATIVE=0 is without what is
compiled.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from typing import Any

import keystate
from keystate import OutputTag
from keystate._worker.operators.keyed import KeyedOperator
from keystate.testing import KeyedProcessHarness
from pyspark.sql import DataFrame

from bench.session import Build, bench_session, measured_in_pairs, print_pairs, write
from bench.workloads.average import OUTPUT, W1, CountWindowAverage

ROWS = "key long, value long"
DEAD = OutputTag("dead", keystate.dead_letter_schema(ROWS))


class Failing(CountWindowAverage):
    """Fails on each row whose key can be divided by a number, after it did its work."""

    def __init__(self, every: int) -> None:
        self.every = every

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield from super().process_element(row, ctx)
        if row.key % self.every == 0:
            raise ValueError(f"the key is {row.key}")


def _way(fn: Any, on_error: Any, read: bool) -> Build:
    def build(rows: DataFrame) -> DataFrame:
        made = keystate.keyed(rows, "key").process(fn, OUTPUT, on_error=on_error)
        return made.with_side_outputs(DEAD) if read else made

    return build


def _worker(letters: Any, read: bool, pairs: int) -> list[float]:
    """The ratios of the CPU time of a message's rows, with letters and without."""
    rng = random.Random(1)
    rows = [(rng.randrange(10_000), i) for i in range(100_000)]
    answer, spent = KeyedOperator.answer, [0.0]

    def timed(self: KeyedOperator, *arguments: Any) -> Any:
        started = time.thread_time()
        answers = list(answer(self, *arguments))
        spent[0] += time.thread_time() - started
        return answers

    def seconds(on_error: Any) -> float:
        spent[0] = 0.0
        tags = [DEAD] if read else []
        with KeyedProcessHarness(
            CountWindowAverage(), ROWS, "key", OUTPUT, side_outputs=tags, on_error=on_error
        ) as harness:
            harness.process_batch(rows)
        return spent[0]

    KeyedOperator.answer = timed  # type: ignore[method-assign]
    try:
        ratios = []
        for i in range(1 + pairs):
            took = [seconds(each) for each in ("fail", letters)[:: 1 if i % 2 else -1]]
            with_letters, without = took[:: -1 if i % 2 else 1]
            if i > 0:
                ratios.append(with_letters / without)
        return sorted(ratios)
    finally:
        KeyedOperator.answer = answer  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.001)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--worker", action="store_true")
    args = parser.parse_args()
    letters, average = keystate.dead_letters(DEAD), CountWindowAverage()
    if args.worker:
        for read in (False, True):
            ratios = _worker(letters, read, args.pairs)
            print(
                f"worker{', side output' if read else '':13} {statistics.median(ratios):.3f} "
                f"({ratios[0]:.3f} to {ratios[-1]:.3f})"
            )
        return
    ways = {
        "without": _way(average, "fail", read=False),
        "with": _way(average, letters, read=False),
        "without, side output": _way(average, "fail", read=True),
        "with, side output": _way(average, letters, read=True),
        "some rows fail": _way(Failing(round(1 / args.share)), letters, read=True),
    }
    with bench_session() as (spark, work):
        data = work / "rows"
        write(data, W1.make(int(W1.rows * args.scale), int(W1.keys * args.scale))[0])
        took = measured_in_pairs(spark, ways, data, args.pairs)
    compared = [
        ("with", "without"),
        ("with, side output", "without, side output"),
        ("some rows fail", "without, side output"),
    ]
    print_pairs(took, compared)


if __name__ == "__main__":
    main()
