"""The query of restart_query.py into a folder with transactions.

python two_phase_query.py FOLDER MASTER PARTITIONS
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import keystate
from keystate._jvm.session import FORMAT_KEY
from keystate.sinks import TwoPhaseCommitSink

from tests.fault import faults, restart_query, sessions


class FolderSink(TwoPhaseCommitSink[Any, str]):
    """A transaction is a file, whose folder says how far it has come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        for step in ("open", "prepared", "committed"):
            (self.folder / step).mkdir(parents=True, exist_ok=True)

    def begin_transaction(self, transaction_id: str) -> str:
        (self.folder / "open" / transaction_id).touch()
        return transaction_id

    def invoke(self, transaction: str, value: Any, context: Any) -> None:
        with (self.folder / "open" / transaction).open("a") as file:
            file.write(json.dumps(list(value)) + "\n")

    def pre_commit(self, transaction: str) -> None:
        (self.folder / "open" / transaction).rename(self.folder / "prepared" / transaction)

    def commit(self, transaction: str) -> None:
        try:
            place = self.folder / "prepared" / transaction
            place.rename(self.folder / "committed" / transaction)
        except FileNotFoundError:
            # It was committed, by this subtask or by one that took its place.
            assert (self.folder / "committed" / transaction).exists(), f"{transaction} is lost"

    def abort(self, transaction: str) -> None:
        for step in ("open", "prepared"):
            (self.folder / step / transaction).unlink(missing_ok=True)

    def prepared_transactions(self, prefix: str) -> dict[str, str]:
        found = (self.folder / "prepared").glob(f"{prefix}*")
        return {path.name: path.name for path in found}


def start(spark: Any, folder: Path, scheme: str = "", **trigger: Any) -> Any:
    """Starts the query, a file a micro-batch."""
    stream = (
        spark.readStream.schema("number long, key long, x long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )
    rows = keystate.keyed(stream, "key").process(
        restart_query.Ledger(), "number long, key long, state string"
    )
    return (
        keystate.stream(rows)
        .add_sink(FolderSink(folder / "sink"))
        .option("checkpointLocation", f"{scheme}{folder / 'checkpoint'}")
        .trigger(**trigger)
        .start()
    )


def committed(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of all committed transactions."""
    files = (folder / "sink" / "committed").iterdir()
    return sorted(tuple(json.loads(line)) for path in files for line in path.open())


def main() -> None:
    place, master, partitions = sys.argv[1:]
    folder = Path(place)
    builder = sessions.builder(master, partitions).config(FORMAT_KEY, "2")
    spark = keystate.configure(faults.configure(builder, folder / "plan")).getOrCreate()
    query = start(spark, folder, "fault://", availableNow=True)
    with contextlib.suppress(KeyboardInterrupt):
        query.awaitTermination()


if __name__ == "__main__":
    main()
