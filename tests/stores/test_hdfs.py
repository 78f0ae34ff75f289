"""A checkpoint in HDFS, on a cluster on loopback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.stores.hdfs_cluster import hdfs
from tests.stores.two_drivers import fenced_killed_and_rescaled


@pytest.mark.skipif("SLOW" not in os.environ, reason="100 MB of jars; set SLOW=1")
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_two_drivers_kills_rescales_and_savepoints(checkpoint_format: str, tmp_path: Path) -> None:
    with hdfs(tmp_path) as store:
        fenced_killed_and_rescaled(store, tmp_path, checkpoint_format)
        assert "savepoint/metadata" in store.files("savepoint/")
