"""Python workers that die in the middle of their work: the task is tried again and counts once."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor
from keystate._jvm.session import FORMAT_KEY
from keystate._types.waiting import wait_until

KEYS = 8
# More than two pages of a map that is asked for.
ENTRIES = 2_500


class Dies(KeyedProcessFunction):
    """Adds to a map and emits what is in it. The worker of one first attempt dies on the way.

    Args:
        how: the way it dies, which is a method.
        folder: where it says that it is about to die.
    """

    def __init__(self, how: str, folder: Path) -> None:
        self.how, self.folder = how, folder

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "long", "long"))
        self.first = (ctx.get_index_of_this_subtask(), ctx.get_attempt_number()) == (0, 0)
        self.rows = 0

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
        self.rows += 1
        count = self.count.value() + 1
        self.count.update(count)
        if count == 1:
            self.map.put_all({i: i for i in range(ENTRIES)})
        total = 0
        # The map is read by the page, and some of what is put is asked for first.
        for i, (key, value) in enumerate(self.map.items()):
            total += value
            if i % 500 == 0:
                self.map[key] = (self.map[key] or 0) + 1
            if count == 2 and self.first and self.rows == 3 and i == 1_500:
                (self.folder / "dying.part").write_text(str(os.getpid()))
                (self.folder / "dying.part").rename(self.folder / "dying")
                getattr(self, self.how)()
        yield row.key, count, total

    def is_killed(self) -> None:
        time.sleep(60)

    def segfaults(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.string_at(0)

    def kills_itself(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def kill(folder: Path, killed: list[int]) -> None:
    """Kills the worker that says it is there to be killed."""
    wait_until((folder / "dying").exists, "a worker", interval=0.01)
    pid = int((folder / "dying").read_text())
    os.kill(pid, signal.SIGKILL)
    killed.append(pid)


def connections(spark: Any) -> int:
    """The threads of the JVM that answer a worker's questions."""
    threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    return sum(thread.getName().startswith("keystate-state-connection") for thread in threads)


@pytest.mark.parametrize(
    ("how", "checkpoint_format", "entries_inline"),
    [("is_killed", "1", "0"), ("segfaults", "2", "10000"), ("kills_itself", "2", "0")],
)
def test_a_worker_dies(
    spark: Any,
    how: str,
    checkpoint_format: str,
    entries_inline: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(
        **{FORMAT_KEY: checkpoint_format, "spark.keystate.worker.inlineEntries": entries_inline},
    )
    fed = stream("key long")
    before = connections(spark)

    def run() -> list[Any]:
        fed.feed([(key,) for key in range(KEYS)])
        return sorted(
            tuple(row)
            for row in fed.run(
                lambda df: keystate.keyed(df, "key").process(
                    Dies(how, tmp_path), "key long, n int, total long"
                )
            )
        )

    assert run() == [(key, 1, total(0)) for key in range(KEYS)]
    killed: list[int] = []
    killer = threading.Thread(target=kill, args=(tmp_path, killed))
    if how == "is_killed":
        killer.start()
    second = run()
    pid = int((tmp_path / "dying").read_text())
    if how == "is_killed":
        killer.join()
        assert killed == [pid]
    assert not Path(f"/proc/{pid}").exists(), "it still lives"
    assert second == [(key, 2, total(1)) for key in range(KEYS)]
    assert run() == [(key, 3, total(2)) for key in range(KEYS)]
    wait_until(
        lambda: connections(spark) <= before, "the end of a thread that answers a dead worker", 10
    )


def total(batches: int) -> int:
    """The sum of a key's map after these batches, each of which adds 5."""
    return sum(range(ENTRIES)) + batches * len(range(0, ENTRIES, 500))
