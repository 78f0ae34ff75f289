"""``python -m tests.fuzz --seconds 3600 --seed 1``: programs of one seed after the other."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--programs", type=int, help="how many")
    parser.add_argument("--seconds", type=float, help="how long")
    parser.add_argument("--layer", choices=("harness", "query"), default="harness")
    parser.add_argument("--stop", action="store_true", help="at the first difference")
    parser.add_argument("--brief", action="store_true", help="only seeds and first differences")
    given = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    return run(given)


def run(given: Any) -> int:
    if given.layer == "query":
        from tests.fuzz.query import check, report
    else:
        from tests.fuzz.check import check, report
    end = time.monotonic() + (given.seconds if given.seconds is not None else float("inf"))
    most = given.programs or (None if given.seconds is not None else 200)
    programs = results = restarts = different = 0
    for seed in itertools.count(given.seed):
        if time.monotonic() >= end or programs == most:
            break
        outcome = check(seed)
        programs, results = programs + 1, results + outcome.results
        restarts += outcome.restarts
        if outcome.differences:
            different += 1
            told = f"seed {seed}: {outcome.differences[0][:200]}"
            print(told if given.brief else report(seed, outcome), flush=True)
            if given.stop:
                break
    print(
        f"{programs} programs from seed {given.seed} on, {results} results compared, "
        f"{restarts} restarts, {different} programs differ"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
