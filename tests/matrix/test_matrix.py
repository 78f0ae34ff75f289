"""Each feature in each shape of a plan, over a restart with other settings."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.matrix.cell import INPUT, Setting, differences
from tests.matrix.drawn_cells import check
from tests.matrix.features import BY_NAME, FEATURES
from tests.matrix.shapes import SHAPES, Shape

SLOW = bool(os.environ.get("SLOW"))

#: Features that share a query, except where each is to be alone: all cells in a third of the time.
PACKS = (
    ("states", "letters", "timers"),
    ("windows", "two inputs", "broadcast"),
    ("async", "columns", "batches", "broadcast table"),
    ("initial state", "operator state", "raw state"),
    ("limits", "no keys"),
)
SINKS = ("foreachBatch", "parquet")
BACKENDS = (("hashmap", "rocksdb"), ("rocksdb", "auto"))


def cells() -> list[Any]:
    """Shapes with features; their sinks and backends take turns."""
    made = []
    for s, shape in enumerate(SHAPES):
        single = SLOW or shape.name == "alone"
        packs = [(feature.name,) for feature in FEATURES] if single else PACKS
        for p, pack in enumerate(packs):
            setting = Setting(SINKS[(s + p) % 2], BACKENDS[(s + p) // 2 % 2], seed=p)
            made.append(pytest.param(shape, pack, setting, id=f"{shape.name}-{', '.join(pack)}"))
    return made


def test_each_feature_is_in_a_pack() -> None:
    assert sorted(name for pack in PACKS for name in pack) == sorted(BY_NAME)


@pytest.mark.parametrize(("shape", "pack", "setting"), cells())
def test_rows_are_those_of_the_model(
    shape: Shape, pack: tuple[str, ...], setting: Setting, spark: Any, stream: Any
) -> None:
    features = [BY_NAME[name] for name in pack]
    wrong = differences(spark, stream(INPUT), features, shape, setting)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(100) if SLOW else ())
def test_drawn_cells(seed: int, spark: Any, stream: Any) -> None:
    wrong = check(seed, spark, stream(INPUT))
    assert not wrong, "\n".join(wrong)
