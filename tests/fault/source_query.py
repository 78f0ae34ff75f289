"""The counter example as a driver that a test kills.

python source_query.py FOLDER PARTITIONS MASTER
"""

from __future__ import annotations

import os
import sys

from examples import counter_source
from tests.fault import sessions

UNTIL, ROWS = 30_000 if os.environ.get("SLOW") else 8_000, 200


def main() -> None:
    folder, partitions, master = sys.argv[1:]
    spark = sessions.create(master, partitions)
    counter_source.start(spark, folder, UNTIL, ROWS).awaitTermination()


if __name__ == "__main__":
    main()
