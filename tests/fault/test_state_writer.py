"""A driver that is killed while it writes a checkpoint leaves none, or the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystate import admin

from tests.fault import state_writer_query as query
from tests.fault.drivers import Driver


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param(
            "hashmap",
            marks=pytest.mark.skipif("not os.environ.get('SLOW')", reason="long; set SLOW=1"),
        ),
        "rocksdb",
    ],
)
def test_killed_while_it_writes(
    backend: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{"spark.keystate.backend": backend})
    fed = stream("key long")
    fed.feed([(i,) for i in range(query.KEYS)])
    fed.run(query.counts)
    slow, target = tmp_path / "slow", tmp_path / "new" / "target"
    slow.mkdir()
    target.parent.mkdir()
    arguments = (fed.checkpoint, target, slow, backend)
    with Driver("state_writer_query.py", tmp_path / "driver.log", *arguments) as driver:
        driver.wait_for(lambda: any(slow.iterdir()))
    assert list(target.parent.iterdir()), "it was not killed while it wrote"
    assert not target.exists()
    # What is left is hidden, and in nobody's way.
    assert all(path.name.startswith(".target.") for path in target.parent.iterdir())
    query.write(str(fed.checkpoint), str(target))
    assert admin.verify(str(target)) == []
    fed.checkpoint = target
    fed.feed([(0,), (query.KEYS,)])
    assert sorted(fed.run(query.counts)) == [(0, 12), (query.KEYS, 1)]
    counts = admin.read_state(spark, str(target), state="count")
    assert counts.count() == query.KEYS + 1
