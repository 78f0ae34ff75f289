"""The query of restart_query.py on a cluster that runs slow tasks a second time.

python speculation_query.py FOLDER BACKEND MASTER FORMAT...

There is a folder for each checkpoint format, named after it, and a folder of events.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import keystate
from keystate._jvm.session import FORMAT_KEY
from pyspark import TaskContext

from tests.fault import events, faults, restart_query, sessions

FILES = 10
# The rows at which the first attempt of a task waits until another one has come as far: from there
# on the two do the same at the same time. A row is in the batch of its number by ROWS.
MEETINGS = [restart_query.ROWS * batch + 30 for batch in (6, 8)]
# Both attempts wait for each other no longer than that.
SECONDS = 60


class Meets(restart_query.Ledger):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.number in MEETINGS:
            # Not the context's attempt number: that of the task that opened the function, maybe in
            # an earlier batch.
            attempt = TaskContext.get().taskAttemptId()
            (self.folder / f"{row.number}.attempt{attempt}").touch()
            end = time.monotonic() + SECONDS
            while time.monotonic() < end and len(attempts(self.folder, row.number)) < 2:
                time.sleep(0.01)
        return super().process_element(row, ctx)


def attempts(folder: Path, number: int) -> list[Path]:
    return list(folder.glob(f"{number}.attempt*"))


def main() -> None:
    place, backend, master, *formats = sys.argv[1:]
    folder = Path(place)
    settings = {
        "spark.keystate.backend": backend,
        **sessions.speculation("500ms"),
        **events.settings(folder),
    }
    builder = sessions.builder(master, 2).config(map=settings)
    spark = keystate.configure(faults.configure(builder, folder / "plan")).getOrCreate()
    queries = []
    for version in formats:
        spark.conf.set(FORMAT_KEY, version)
        own = folder / version
        queries.append(
            restart_query.start(spark, own, Meets(own), "fault://", availableNow=True),
        )
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
