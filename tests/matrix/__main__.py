"""``python -m tests.matrix --seconds 3600 --seed 1``: random cells, one seed after the other."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from tests.conftest import Stream
from tests.fuzz.query import session
from tests.matrix.cell import INPUT
from tests.matrix.drawn_cells import check, described


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.matrix", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first cell")
    parser.add_argument("--cells", type=int, help="how many")
    parser.add_argument("--seconds", type=float, help="how long; by default 600 without --cells")
    given = parser.parse_args()
    seconds = given.seconds or (float("inf") if given.cells else 600)
    end, spark = time.monotonic() + seconds, session("local[2,2]")
    ran = different = 0
    for seed in itertools.count(given.seed):
        if time.monotonic() >= end or ran == given.cells:
            break
        with tempfile.TemporaryDirectory() as folder:
            wrong = check(seed, spark, Stream(spark, Path(folder), INPUT))
        ran, different = ran + 1, different + bool(wrong)
        if wrong:
            print(f"seed {seed}: {described(seed)}")
            print("\n".join(each[:1500] for each in wrong))
            print(f"again: python -m tests.matrix --cells 1 --seed {seed}", flush=True)
    print(f"{ran} cells from seed {given.seed} on, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
