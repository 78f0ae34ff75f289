"""Hundreds of stores that share little memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.fault import many_stores_query as query
from tests.fault.drivers import Driver

MEMORY, MB = 64, 1 << 20


@pytest.mark.skipif("SLOW" not in os.environ, reason="takes minutes; set SLOW=1")
def test_memory_of_many_stores(spark: Any, tmp_path: Path) -> None:
    """Native memory stays what the setting says, seen from outside; the state is all there."""
    assert query.BATCHES * query.KEYS * query.SIZE * 64 > 3 * MEMORY * MB
    used = []
    with Driver("many_stores_query.py", tmp_path / "log", tmp_path, MEMORY) as driver:
        for n in range(query.BATCHES + 2):
            (tmp_path / f"{n}.run").touch()
            driver.wait_for((tmp_path / f"{n}.done").exists)
            used.append(resident(driver.jvm()))
            if n == query.BATCHES:
                stores = databases(tmp_path / "local")
                assert len(stores) == query.PARTITIONS, stores[:3]
        assert driver.wait() == 0, driver.log
    print(f"{[size // MB for size in used]} MB")
    # Filled, then read: what comes on top of stores that are open and empty. Code and the C
    # library's own keeping take some of it; without a bound it would be as much as the state.
    assert max(used) - used[0] < (MEMORY + 128) * MB, [size // MB for size in used]
    emitted = json.loads((tmp_path / f"output/{query.BATCHES + 1}.json").read_text())
    value = F.crc32(query.value(F.col("id")).cast("binary"))
    expected = spark.range(query.BATCHES * query.KEYS).select("id", value)
    assert sorted(map(tuple, emitted)) == sorted(map(tuple, expected.collect()))


def resident(pid: int) -> int:
    """The memory of a process that is not a file's."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("RssAnon"))
    return int(kilobytes) << 10


def databases(local: Path) -> list[Path]:
    """The folders of databases that are open."""
    return [path.parent for path in local.rglob("CURRENT")]
