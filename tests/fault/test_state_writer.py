"""A driver that is killed while it writes a checkpoint leaves none, or the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from keystate import admin

from tests.drawn import drawn
from tests.fault import state_writer_query as query
from tests.fault.drivers import Driver


@pytest.mark.turns
@pytest.mark.parametrize(
    ("operators", "backend"),
    drawn("state writer", product([1, 3], ["hashmap", "rocksdb"]), 1),
)
def test_killed_while_it_writes(
    operators: int,
    backend: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{"spark.keystate.backend": backend})
    fed = stream("key long")
    fed.feed([(i,) for i in range(query.KEYS)])
    fed.run(partial(query.counts, operators=operators))
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
    # The operator that was being written has no version; those done before it have theirs.
    written = {int(path.parts[-3]) for path in target.parent.glob(".target.*/state/*/*/*.keystate")
               if not path.parts[-5].endswith(".empty")}  # fmt: skip
    assert written == ({0, 2} if operators == 3 else set())
    query.write(str(fed.checkpoint), str(target))
    assert admin.verify(str(target)) == []
    fed.checkpoint = target
    fed.feed([(0,), (query.KEYS,)])
    emitted = fed.run(partial(query.counts, operators=operators))
    assert sorted(emitted) == [(0, 12), (query.KEYS, 1)]
    for operator in range(operators):
        counts = admin.read_state(spark, str(target), state="count", operator=operator)
        assert counts.count() == query.KEYS + 1
        (of_zero,) = counts.where("key.key = 0").collect()
        assert of_zero.value.value == (2 if operator == 2 else 12)
