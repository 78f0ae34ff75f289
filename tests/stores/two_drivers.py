"""A query in a store, of which the drivers come and go; what every store has to pass."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tests.fault import second_driver_query as query
from tests.fault.drivers import Started
from tests.fault.test_second_driver import last_counts

EACH = query.ROWS // query.KEYS


class Store(Protocol):
    #: What URLs in it begin with.
    url: str

    def settings(self) -> dict[str, str]: ...

    def files(self, prefix: str = "") -> list[str]: ...


def fenced_killed_and_rescaled(
    store: Store,
    folder: Path,
    checkpoint_format: str,
    at: Callable[[str], None] = lambda moment: None,
) -> None:
    """A driver is fenced off by a second one, which is killed in a batch; a third one goes on.

    Each has another number of partitions. The last one has five, and does eight micro-batches
    between the moments `steady` and `counted`.
    """
    query.feed(folder, 0)
    for name in "ab":
        (folder / f"{name}.sink").touch()
    (folder / "settings.json").write_text(json.dumps(store.settings()))

    def driver(name: str, partitions: int) -> Started:
        script = Path(__file__).with_name("store_query.py")
        arguments = [store.url, folder, name, partitions, checkpoint_format]
        command = [sys.executable, str(script), *map(str, arguments)]
        return Started(command, folder / f"{name}.log")

    def waits(name: str) -> bool:
        return (folder / f"{name}.waits").exists()

    with driver("a", 4) as first:
        first.wait_for(lambda: (folder / "output/0.json").exists())
        query.feed(folder, 1)
        first.wait_for(lambda: waits("a.sink"))
        with driver("b", 3) as second:
            second.wait_for(lambda: waits("b.sink"))
            (folder / "a.sink").unlink()
            first.wait_for((folder / "a.error").exists)
            assert "KEYSTATE_FENCED" in (folder / "a.error").read_text()
            assert store.files("query/commits/") == ["query/commits/0"]
    query.feed(folder, 2)
    with driver("last", 5) as last:
        for moment in ("steady", "counted"):
            last.wait_for((folder / moment).exists)
            at(moment)
            (folder / moment).unlink()
        assert last.wait() == 0, last.log
    check(json.loads((folder / "found.json").read_text()))
    # 0, 1 and 2, eight while requests were counted, and two after the savepoint: one key was
    # forgotten before the last.
    everyone = range(query.KEYS)
    assert last_counts(folder) == {**dict.fromkeys(everyone, 13 * EACH), 0: EACH}
    assert not [name for name in store.files() if ".tmp" in name]


def check(found: dict[str, Any]) -> None:
    """What the last driver found in the store."""
    assert found["problems"] == found["savepoint"] == []
    assert found["state"] == [[key, 3 * EACH] for key in range(query.KEYS)]
    assert found["table"] == found["state"] and found["one key"] == found["state"][:1]
    assert (found["partitions"], found["before"], found["after"]) == (5, 5, 2)
    assert found["forgotten"] == [EACH, 13 * EACH] and found["traces"]
    verify, savepoint, start = found["cut off"]
    assert "KEYSTATE_UNFINISHED" in verify and "KEYSTATE_UNFINISHED" in start
    assert "KEYSTATE_SAVEPOINT_EXISTS" in savepoint
