"""The query of restart_query.py with larger states, on files that go wrong as a test plans.

python kill_points_query.py FOLDER FORMAT BACKEND MASTER
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import keystate
from keystate import ValueStateDescriptor
from keystate._jvm.session import FORMAT_KEY

from tests.fault import faults, restart_query, sessions


class Bulky(restart_query.Ledger):
    """Changes more in a micro-batch than a version file takes in, however well it is compressed."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.ballast = ctx.get_state(ValueStateDescriptor("ballast", "string"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.ballast.update(random.Random(row.x).randbytes(12_000).hex())
        return super().process_element(row, ctx)


def main() -> None:
    folder, checkpoint_format, backend, master = sys.argv[1:]
    builder = (
        sessions.builder(master, 2)
        .config("spark.keystate.backend", backend)
        .config("spark.keystate.auto.heapShare", "1e-9")
        .config(FORMAT_KEY, checkpoint_format)
    )
    spark = keystate.configure(faults.configure(builder, Path(folder, "plan"))).getOrCreate()
    query = restart_query.start(spark, Path(folder), Bulky(), "fault://", availableNow=True)
    query.awaitTermination()


if __name__ == "__main__":
    main()
