"""A query whose workers are reached, and ask for state, by Unix domain sockets in a folder.

Prints the results, and the sockets of the state server.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ListStateDescriptor

from tests.fault import sessions


class Last(KeyedProcessFunction):
    """Tells how many elements of a list it read: by the side channel, once it is long."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", "long"))

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.seen.add(row.x)
        ctx.timer_service().register_event_time_timer(row.x)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, len(list(self.seen))


def main(folder: Path) -> None:
    spark = keystate.configure(
        sessions.builder("local[1]", 1)
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.unix.domain.socket.dir", str(folder))
    ).getOrCreate()
    rows = spark.createDataFrame([(1, 5), (1, 6)], "key long, x long")
    out = keystate.keyed(rows, "key").process(Last(), "key long, time long, n long")
    print(sorted(map(tuple, out.collect())))
    print(len(list(folder.glob("keystate-*/state.sock"))))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
