"""A source and a sink in Scala as a driver that a test kills.

python kills_query.py FOLDER PARTITIONS MASTER JAR
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.fault import sessions

UNTIL, ROWS = 8_000, 200
KEPT = 10**9  # the sink writes nothing before it has so many


def count(jvm: Any, session: Any, folder: Path, until: int, threshold: int) -> None:
    """Counts on to a number, and into the sink."""
    file, checkpoint = str(folder / "written"), str(folder / "checkpoint")
    jvm.OperatorStates.countIntoBuffer(session, until, ROWS, threshold, file, checkpoint)


def main() -> None:
    folder, partitions, master, jar = sys.argv[1:]
    spark: Any = sessions.create(master, partitions, **{"spark.jars": jar})
    count(spark._jvm, spark._jsparkSession, Path(folder), UNTIL, KEPT)


if __name__ == "__main__":
    main()
