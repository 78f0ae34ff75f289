"""A checkpoint in an object store, through s3a against a server on loopback."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.stores.s3_server import S3, s3
from tests.stores.two_drivers import fenced_killed_and_rescaled


@pytest.mark.skipif("SLOW" not in os.environ, reason="long; set SLOW=1")
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_two_drivers_kills_rescales_and_savepoints(checkpoint_format: str, tmp_path: Path) -> None:
    with s3(tmp_path) as store:
        at: dict[str, int] = {}
        fenced_killed_and_rescaled(
            store, tmp_path, checkpoint_format, lambda moment: at.update({moment: store.now()})
        )
        check_requests(store.requests(at["steady"], at["counted"]), batches=5, partitions=5)
        check_savepoint([path for verb, path in store.requests() if verb in ("PUT", "DELETE")])


def check_requests(steady: list[tuple[str, str]], batches: int, partitions: int) -> None:
    """What micro-batches of a running query cost: one PUT a partition, and the query's logs."""
    state = [request for request in steady if re.search(r"query/state/0/\d+/", request[1])]
    print("requests a micro-batch:", len(steady) / batches, S3.count(steady))
    assert S3.count(state) == {"PUT": batches * partitions}, state
    others = S3.count([request for request in steady if request not in state])
    # The logs of offsets, commits and the source, and two looks for another driver, each of a HEAD
    # and a LIST; more of them where a batch begins slowly.
    assert others["PUT"] == 3 * batches, others
    assert sum(others.values()) <= 11 * batches, others


def check_savepoint(written: list[str]) -> None:
    """A savepoint has a mark from its first file to its last."""
    written = [path.split("/savepoint/")[1] for path in written if "/savepoint/" in path]
    assert written[0].startswith("_keystate/unfinished")
    end = next(i for i, path in enumerate(written[1:], 1) if path.startswith(written[0][:20]))
    copied = [path.split("?")[0] for path in written[1:end]]
    assert "metadata" in copied and any(path.startswith("offsets/") for path in copied)
    assert any(path.startswith("state/0/4/") for path in copied)
