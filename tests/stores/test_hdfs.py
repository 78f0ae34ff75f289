"""A checkpoint in HDFS, on a cluster on loopback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.fault.drivers import Driver
from tests.fault.test_shared_savepoints import works
from tests.stores.hdfs_cluster import hdfs
from tests.stores.two_drivers import fenced_killed_and_rescaled

pytestmark = pytest.mark.skipif("SLOW" not in os.environ, reason="100 MB of jars; set SLOW=1")


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_two_drivers_kills_rescales_and_savepoints(checkpoint_format: str, tmp_path: Path) -> None:
    with hdfs(tmp_path) as store:
        fenced_killed_and_rescaled(store, tmp_path, checkpoint_format)
        assert "savepoint/metadata" in store.files("savepoint/")


def test_savepoints_by_reference(tmp_path: Path) -> None:
    with hdfs(tmp_path) as store:
        (tmp_path / "settings.json").write_text(json.dumps(store.settings()))
        arguments = (tmp_path, "2", "hashmap", 1, store.url)
        with Driver("shared_savepoint_query.py", tmp_path / "log", *arguments) as driver:
            assert driver.wait(600) == 0, driver.log
        works(json.loads((tmp_path / "found.json").read_text())["works"])
