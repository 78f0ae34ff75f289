"""examples/delta_balances.py with Delta Lake."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from keystate._jvm.session import FORMAT_KEY

from tests import jvm_archive
from tests.fault import faults
from tests.fault.drivers import Started, committed
from tests.stores import lakes
from tests.stores.artifacts import jars_for_spark

FILES, ROWS, ACCOUNTS = 6, 40, 9
#: Numbers of partitions, each with the batch that is run twice: its driver dies when Delta has the
#: batch, and Spark's commit log has not.
KILLS = [(2, 1), (5, 3)]


@pytest.mark.skipif("SLOW" not in os.environ, reason="10 MB of jars, and minutes; set SLOW=1")
@pytest.mark.skipif(
    lakes.release("delta") is None, reason="Delta Lake has no release for this Spark"
)
@pytest.mark.parametrize(
    ("checkpoint_format", "options"),
    # With format 2 Spark can't go on after a batch that a sink of its own skips.
    [("1", []), ("2", []), ("1", ["--append"])],
)
def test_killed_after_deltas_commit_and_rescaled(
    checkpoint_format: str, options: list[str], tmp_path: Path
) -> None:
    """Two batches are run again, with other partitions; the table has each batch once."""
    made = feed(tmp_path / "input")
    table = tmp_path / "table"
    plan = faults.Plan(tmp_path / "plan")
    settings = {
        "spark.jars": jars_for_spark("delta", spark=lakes.LINE, delta=str(lakes.release("delta"))),
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": jvm_archive.OPTIONS,
        "spark.databricks.delta.snapshotPartitions": "2",
        FORMAT_KEY: checkpoint_format,
        **faults.settings(tmp_path / "plan"),
    }
    lines = [f"{key} {value}" for key, value in settings.items()]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))

    def example(partitions: int, *more: str) -> Started:
        folders = [tmp_path / "input", table, f"fault://{tmp_path / 'checkpoint'}"]
        arguments = [*map(str, folders), "--partitions", str(partitions), *options, *more]
        return Started(
            [sys.executable, "-m", "examples.delta_balances", *arguments],
            tmp_path / "example.log",
            SPARK_CONF_DIR=str(tmp_path),
            **faults.environment(tmp_path / "plan"),
        )

    for partitions, batch in KILLS:
        plan.add(f"{batch}", "create", 1, "hold", rf"commits/{batch}$")
        with example(partitions) as running:
            running.wait_for(lambda name=f"{batch}": name in plan.happened())
        assert committed(tmp_path) == batch
        query = json.loads((tmp_path / "checkpoint/metadata").read_text())["id"]
        assert batches(table, query) == list(range(batch + 1))
    with example(3, "--once") as last:
        assert last.wait() == 0, last.log
    # So all were run to their end, two of them again. Delta has no second commit of these.
    assert committed(tmp_path) == FILES
    assert batches(table, query) == list(range(FILES))
    assert rows(table) == (results(made) if options else balances(made))


def feed(folder: Path) -> list[list[dict[str, Any]]]:
    """Writes the files, each of which is a micro-batch; returns what is in them."""
    rng, made = random.Random(5), []
    folder.mkdir()
    for i in range(FILES):
        made.append(
            [
                {"account": f"a{rng.randrange(ACCOUNTS)}", "number": n, "amount": rng.randrange(99)}
                for n in range(i * ROWS, (i + 1) * ROWS)
            ]
        )
        path = folder / f"{i}.json"
        path.write_text("\n".join(map(json.dumps, made[i])))
        # The file source takes files in the order of their times.
        os.utime(path, (1e9 + i, 1e9 + i))
    return made


def results(made: list[list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
    """What the function emits for all rows: account, entries, balance."""
    emitted, state = [], {}
    for row in (row for file in made for row in file):
        entries, balance = state.get(row["account"], (0, 0))
        state[row["account"]] = entries + 1, balance + row["amount"]
        emitted.append((row["account"], *state[row["account"]]))
    return sorted(emitted)


def balances(made: list[list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
    """What the table has at last: account, entries, balance, changes."""
    last = {account: (account, *state) for account, *state in results(made)}
    return [
        (*row, sum(any(r["account"] == row[0] for r in file) for file in made))
        for row in last.values()
    ]


def actions(table: Path) -> Iterator[dict[str, Any]]:
    """What Delta's log says, in its order."""
    for path in sorted((table / "_delta_log").glob("*.json")):
        yield from map(json.loads, path.read_text().splitlines())


def batches(table: Path, query: str) -> list[int]:
    """The batch of each commit that has one of this query."""
    noted = [action["txn"] for action in actions(table) if "txn" in action]
    return [txn["version"] for txn in noted if txn["appId"] == query]


def rows(table: Path) -> list[tuple[Any, ...]]:
    """What the table has now."""
    files = set()
    for action in actions(table):
        if "add" in action:
            assert "deletionVector" not in action["add"]
            files.add(action["add"]["path"])
        elif "remove" in action:
            files.remove(action["remove"]["path"])
    return sorted(
        tuple(row.values()) for path in files for row in pq.read_table(table / path).to_pylist()
    )
