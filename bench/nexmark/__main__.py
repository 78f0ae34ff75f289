"""Runs the queries on the systems and prints a table: python -m bench.nexmark [q3 q5 ...].

Each figure is the median of the repetitions, which the systems run in turns after a round that
warms up. An event is a person, an auction or a bid, also where a query reads only some of them.
Slow systems get a part of the events, at as much lower a rate: windows have as much less in them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.children import Child
from bench.nexmark.events import Events
from bench.nexmark.expected import QUERIES
from bench.nexmark.systems import System, bytewax, pyflink, quix, spark_systems
from bench.session import CORES
from tests.stores.kafka_broker import kafka

Result = dict[str, Any]


def main() -> None:
    names = [query.name for query in QUERIES]
    parser = argparse.ArgumentParser(
        prog="python -m bench.nexmark",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("queries", nargs="*", metavar="q", help=f"of {', '.join(names)}; all")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument("--batches", type=int, default=10, help="micro-batches they come in")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument(
        "--systems",
        nargs="*",
        metavar="NAME",
        help=f"of {'; '.join(s.name for s in spark_systems())}; Bytewax; PyFlink; Quix Streams; "
        "all",
    )
    parser.add_argument("--bytewax", metavar="PYTHON", help="a Python with bytewax and pyarrow")
    parser.add_argument("--pyflink", metavar="PYTHON", help="a Python with apache-flink")
    parser.add_argument("--quix", metavar="PYTHON", help="a Python with quixstreams and pyarrow")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="for events and JSON")
    arguments = parser.parse_args()
    queries = arguments.queries or names
    if unknown := set(queries) - set(names):
        parser.error(f"no query {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    with ExitStack() as stack:
        systems = spark_systems()
        if arguments.bytewax is not None:
            systems.append(bytewax(arguments.bytewax))
        if arguments.pyflink is not None:
            systems.append(pyflink(arguments.pyflink))
        if arguments.quix is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="keystate-bench"))
            systems.append(quix(arguments.quix, stack.enter_context(kafka(Path(folder)))))
        known = {system.name: system for system in systems}
        if unknown := set(arguments.systems or ()) - set(known):
            parser.error(f"no system {', '.join(sorted(unknown))}; there are {'; '.join(known)}")
        chosen = [known[name] for name in arguments.systems or known]
        running = {system.name: Child(system.name, system.command) for system in chosen}
        for process in running.values():
            stack.callback(process.close)
        results = [
            result for query in queries for result in compare(query, chosen, running, arguments)
        ]
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "nexmark.json").write_text(json.dumps(results, indent=1))


def compare(
    query: str, systems: list[System], running: dict[str, Child], arguments: argparse.Namespace
) -> list[Result]:
    """The figures of a query, printed too."""
    title = next(q.title for q in QUERIES if q.name == query)
    print(f"\n{query}  {title}")
    inputs = {
        system.name: Events(
            int(arguments.events * system.shares[query]),
            max(1, int(arguments.rate * system.shares[query])),
            arguments.batches,
        )
        for system in systems
        if query in system.shares
    }
    if not inputs:
        print("  has no form in these systems")
        return []
    folders = {name: each.cached(arguments.out / "events") for name, each in inputs.items()}
    runs: dict[str, list[Result]] = {name: [] for name in inputs}
    for round_ in range(1 + arguments.reps):
        for name in inputs:
            answer = running[name].ask({"query": query, "folder": str(folders[name])})
            if round_ > 0:
                runs[name].append(answer)
    results = [summary(query, name, inputs[name].count, each) for name, each in runs.items()]
    _table(results)
    return results


def summary(query: str, name: str, events: int, runs: list[Result]) -> Result:
    def median(key: str) -> float:
        return statistics.median(run[key] for run in runs)

    # The first micro-batch starts workers and plans.
    batches = [ms for run in runs for ms in run.get("batch_ms", ())[1:]]
    return {
        "query": query,
        "system": name,
        "events": events,
        "seconds": round(median("seconds"), 3),
        "events_per_s_a_core": round(events / median("seconds") / runs[0].get("cores", CORES)),
        "cpu_s_per_million": round(median("cpu") / events * 1e6, 2),
        "memory_mb": round(max(run["memory"] for run in runs)),
        "emitted": runs[-1].get("emitted"),
        "batch_ms": statistics.median(batches) if batches else None,
    }


def _table(results: list[Result]) -> None:
    base = results[0]
    print(
        f"  {'':28} {'events':>9} {'a second':>9} {'CPU s a':>8} {'memory':>7} {'ms a':>6} "
        f"{'emitted':>8} {base['system'] + ' is':>18}"
    )
    print(f"  {'':28} {'':>9} {'and core':>9} {'million':>8} {'MB':>7} {'batch':>6}")
    for r in results:
        ratio = base["events_per_s_a_core"] / max(r["events_per_s_a_core"], 1)
        r["times"] = round(ratio, 2)
        told = "" if r is base else f"{ratio:.2f} x as fast"
        batch = "" if r["batch_ms"] is None else f"{r['batch_ms']:,.0f}"
        emitted = "" if r["emitted"] is None else f"{r['emitted']:,}"
        print(
            f"  {r['system']:28} {r['events']:>9,} {r['events_per_s_a_core']:>9,} "
            f"{r['cpu_s_per_million']:>8} {r['memory_mb']:>7,} {batch:>6} {emitted:>8} {told:>18}",
            flush=True,
        )


if __name__ == "__main__":
    main()
