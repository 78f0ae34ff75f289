"""A query in real-time mode, which is started again when it fails.

As a script it is the driver that a test kills: FOLDER ROWS MASTER [DURATION]. It feeds so many
rows, or until there is a file ``enough``; then it notes in ``fed`` how many it were.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import keystate
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.fault import sessions
from tests.query.test_real_time import Count
from tests.real_time import MIN_DURATION, Source, note, start


def rows(count: int) -> list[tuple[int, int]]:
    return [(i * 31 % 17, i) for i in range(count)]


class LocatedCount(Count):
    """Also notes in which executor each row is counted."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        # The parent of a worker is a daemon, and its parent is the executor.
        status = Path(f"/proc/{os.getppid()}/status").read_text()
        self.executor = int(status.split("PPid:")[1].split()[0])

    def process_element(self, row: Any, ctx: Any) -> Any:
        note(f"{self.path}.in", self.executor)
        yield from super().process_element(row, ctx)


def begin(spark: SparkSession, source: Source, folder: Path, duration: str) -> Any:
    function = LocatedCount(folder / "noted")
    out = keystate.keyed(source.rows(), "key").process(function, "key long, n long")
    return start(out, folder, duration)


def feed(source: Source, folder: Path, count: int) -> None:
    fed = 0
    for row in rows(count):
        if (folder / "enough").exists():
            break
        source.add([row])
        fed += 1
        time.sleep(0.005)
    note(str(folder / "fed"), fed)


def main() -> None:
    folder, count, master = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    duration = sys.argv[4] if len(sys.argv) > 4 else "2 seconds"
    builder = sessions.builder(master, 1).config(MIN_DURATION, "100")
    spark = keystate.configure(builder).getOrCreate()
    source = Source(spark)
    threading.Thread(target=feed, args=(source, folder, count), daemon=True).start()
    while True:
        query = begin(spark, source, folder, duration)
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            note(str(folder / "failed"), str(error))


if __name__ == "__main__":
    main()
