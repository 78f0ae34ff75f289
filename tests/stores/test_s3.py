"""A checkpoint in an object store, through s3a against a server on loopback."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.fault import second_driver_query as query
from tests.fault.drivers import Started
from tests.fault.test_second_driver import last_counts
from tests.stores.s3_server import BUCKET, S3, s3

EACH = query.ROWS // query.KEYS


@pytest.mark.skipif("SLOW" not in os.environ, reason="long; set SLOW=1")
def test_two_drivers_kills_rescales_and_savepoints(tmp_path: Path) -> None:
    """A driver is fenced off by a second one, which is killed in a batch; a third one goes on.

    Each has another number of partitions.
    """
    query.feed(tmp_path, 0)
    for name in "ab":
        (tmp_path / f"{name}.sink").touch()
    with s3(tmp_path) as store:
        (tmp_path / "settings.json").write_text(json.dumps(store.settings()))
        store.client.put_object(Bucket=BUCKET, Key="cut/_keystate/unfinished", Body=b"")

        def driver(name: str, partitions: int) -> Started:
            script = Path(__file__).with_name("store_query.py")
            arguments = [store.url, tmp_path, name, partitions, 2]
            command = [sys.executable, str(script), *map(str, arguments)]
            return Started(command, tmp_path / f"{name}.log")

        def waits(name: str) -> bool:
            return (tmp_path / f"{name}.waits").exists()

        with driver("a", 4) as first:
            first.wait_for(lambda: (tmp_path / "output/0.json").exists())
            query.feed(tmp_path, 1)
            first.wait_for(lambda: waits("a.sink"))
            with driver("b", 3) as second:
                second.wait_for(lambda: waits("b.sink"))
                (tmp_path / "a.sink").unlink()
                first.wait_for((tmp_path / "a.error").exists)
                assert "KEYSTATE_FENCED" in (tmp_path / "a.error").read_text()
                assert store.files("query/commits/") == ["query/commits/0"]
        query.feed(tmp_path, 2)
        with driver("last", 5) as last:
            last.wait_for((tmp_path / "steady").exists)
            begin = store.now()
            (tmp_path / "steady").unlink()
            last.wait_for((tmp_path / "counted").exists)
            steady = store.requests(begin)
            (tmp_path / "counted").unlink()
            assert last.wait() == 0, last.log
        found = json.loads((tmp_path / "found.json").read_text())
        assert found["problems"] == found["savepoint"] == []
        assert found["state"] == [[key, 3 * EACH] for key in range(query.KEYS)]
        assert (found["partitions"], found["before"], found["after"]) == (5, 5, 2)
        # 0, 1 and 2, eight while requests were counted, and the one after the savepoint.
        assert last_counts(tmp_path) == dict.fromkeys(range(query.KEYS), 12 * EACH)
        check_requests(steady, batches=5, partitions=5)
        assert not [name for name in store.files() if ".tmp" in name]
        verify, savepoint, start = found["cut off"]
        assert "KEYSTATE_UNFINISHED" in verify and "KEYSTATE_UNFINISHED" in start
        assert "KEYSTATE_SAVEPOINT_EXISTS" in savepoint
        check_savepoint([path for verb, path in store.requests() if verb in ("PUT", "DELETE")])


def check_requests(steady: list[tuple[str, str]], batches: int, partitions: int) -> None:
    """What micro-batches of a running query cost: one PUT a partition, and the query's logs."""
    state = [request for request in steady if re.search(r"query/state/0/\d+/", request[1])]
    print("requests a micro-batch:", len(steady) / batches, S3.count(steady))
    assert S3.count(state) == {"PUT": batches * partitions}, state
    others = S3.count([request for request in steady if request not in state])
    # The logs of offsets, commits and the source, and looks for other drivers.
    assert others["PUT"] == 3 * batches, others
    assert sum(others.values()) <= 25 * batches, others


def check_savepoint(written: list[str]) -> None:
    """A savepoint has a mark from its first file to its last."""
    written = [path.split("/savepoint/")[1] for path in written if "/savepoint/" in path]
    assert written[0].startswith("_keystate/unfinished")
    end = next(i for i, path in enumerate(written[1:], 1) if path.startswith(written[0][:20]))
    copied = [path.split("?")[0] for path in written[1:end]]
    assert "metadata" in copied and any(path.startswith("offsets/") for path in copied)
    assert any(path.startswith("state/0/4/") for path in copied)
