"""Compares this tree with a commit, in pairs, and fails if something takes over 5 % longer.

python -m bench.gate                    against the commit before HEAD
python -m bench.gate --base v0.3        against another one
python -m bench.gate --base ../other    against a clone that has its jar
python -m bench.gate --figures          no comparison: the ratios of figures.json, measured again

Two processes, one for each Keystate, measure a case in turns: a pair is one of each, and the order
changes from pair to pair. What counts is the median of the pairs' ratios. A case above the limit
gets as many pairs again, and the median of all counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from bench.children import Child
from bench.gate.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "bench" / "figures.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {'; '.join(CASES)}; all")
    parser.add_argument("--base", default="HEAD~1", help="a commit, or the folder of a clone")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=0.05, help="0.05 is 5 %%")
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--write", action="store_true", help="with --figures: writes the file")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {'; '.join(CASES)}")
    cases = arguments.cases or list(CASES)
    if arguments.figures:
        figures(cases, arguments.pairs, arguments.write)
        return
    slower = compare(cases, tree(arguments.base), arguments.pairs, arguments.limit)
    if slower:
        sys.exit(f"slower than {arguments.base}: {', '.join(slower)}")


def tree(base: str) -> Path:
    """A folder with the base and its jar: a worktree of its commit, which is kept."""
    if Path(base).is_dir():
        return Path(base).resolve()
    commit = _git("rev-parse", "--short=12", f"{base}^{{commit}}")
    folder = ROOT / "out" / "gate" / commit
    if not folder.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", str(folder), commit)
    subprocess.run(["make", "jar"], cwd=folder, check=True)
    return folder


def _git(*command: str) -> str:
    done = subprocess.run(
        ["git", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def start(folder: Path) -> Child:
    """A process that measures the Keystate of a tree with the cases of this one."""
    # Before what is installed: pip's editable install leads to this tree.
    paths = f"{folder / 'python'}{os.pathsep}{ROOT}"
    command = sys.executable, "-m", "bench.gate.side"
    return Child(str(folder), command, {"PYTHONPATH": paths})


def compare(cases: list[str], base: Path, pairs: int, limit: float) -> list[str]:
    """Prints the ratio of each case; those above the limit."""
    before, after = start(base), start(ROOT)
    slower = []
    try:
        print(f"{'':28} {'before, s':>9} {'after, s':>9} {'median':>7}  of the pairs")
        for case in cases:
            found = _pairs(before, after, case, pairs, base)
            if statistics.median(b / a for a, b in found) > 1 + limit:
                found += _pairs(before, after, case, pairs, base)
            ratios = sorted(b / a for a, b in found)
            ratio = statistics.median(ratios)
            if ratio > 1 + limit:
                slower.append(case)
            print(
                f"{case:28} {statistics.median(a for a, _ in found):>9.3f} "
                f"{statistics.median(b for _, b in found):>9.3f} {ratio:>7.3f}  "
                f"{ratios[0]:.3f} to {ratios[-1]:.3f}{'  SLOWER' if case in slower else ''}",
                flush=True,
            )
    finally:
        before.close()
        after.close()
    return slower


def _pairs(
    before: Child, after: Child, case: str, pairs: int, base: Path
) -> list[tuple[float, float]]:
    """Seconds before and after, in turns, after a pair that warms up."""
    found = []
    for i in range(1 + pairs):
        took = {}
        for child, folder in ((before, base), (after, ROOT))[:: 1 if i % 2 else -1]:
            answer = child.ask({"case": case})
            if not Path(answer["keystate"]).is_relative_to(folder):
                sys.exit(f"{folder} was to be measured, but {answer['keystate']} was")
            took[child] = answer["seconds"]
        if i > 0:
            found.append((took[before], took[after]))
    return found


def figures(cases: list[str], pairs: int, write: bool) -> None:
    """Measures the ratios of figures.json, and prints both."""
    kept: dict[str, float] = json.loads(FIGURES.read_text())
    child = start(ROOT)
    try:
        for case in cases:
            if CASES[case].yardstick is None:
                continue
            ratios = []
            for i in range(1 + pairs):
                yardstick = child.ask({"case": case, "yardstick": ""})["seconds"]
                ratio = child.ask({"case": case})["seconds"] / yardstick
                if i > 0:
                    ratios.append(ratio)
            ratio = round(statistics.median(ratios), 2)
            print(f"{case:28} {ratio:>6}, kept is {kept.get(case)}", flush=True)
            if write:
                kept[case] = ratio
    finally:
        child.close()
    if write:
        FIGURES.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
