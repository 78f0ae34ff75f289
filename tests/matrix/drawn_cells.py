"""Random cells: some features in a shape, with settings that the table leaves alone."""

from __future__ import annotations

import random
from typing import Any

from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import SparkSession

from tests.matrix.cell import Setting, differences
from tests.matrix.feature import Feature
from tests.matrix.features import FEATURES
from tests.matrix.shapes import SHAPES, Shape

BACKENDS = ("hashmap", "rocksdb", "auto")
SETTINGS = {
    FORMAT_KEY: ("1", "2"),
    "spark.keystate.worker.maxCachedKeys": ("2", "100000"),
    "spark.keystate.worker.inlineEntries": ("0", "2", "100"),
    "spark.sql.execution.arrow.maxRecordsPerBatch": ("1", "4", "10000"),
    "spark.keystate.restart.keepSeconds": ("0", "60"),
}


def draw(seed: int) -> tuple[list[Feature], Shape, Setting]:
    rng = random.Random(f"cell {seed}")
    features = rng.sample(FEATURES, rng.choice((1, 1, 2, 3)))
    shape = rng.choice(SHAPES)
    setting = Setting(
        rng.choice(("foreachBatch", "parquet")),
        (rng.choice(BACKENDS), rng.choice(BACKENDS)),
        batches=rng.randint(1, 4 if shape.reuse else 2),
        rows=rng.choice((1, 5, 9, 40)),
        seed=seed,
        # Where each task starts a worker, few of them.
        partitions=tuple(rng.choice((1, 2, 3, 4, 5, 7) if shape.reuse else (1, 2)) for _ in "abc"),
        conf={name: rng.choice(values) for name, values in SETTINGS.items()},
    )
    return features, shape, setting


def check(seed: int, spark: SparkSession, stream: Any) -> list[str]:
    """What is wrong in the cell of a seed; an error is too."""
    features, shape, setting = draw(seed)
    try:
        return differences(spark, stream, features, shape, setting)
    except Exception as e:
        return [f"{type(e).__name__}: {e}"]


def described(seed: int) -> str:
    features, shape, setting = draw(seed)
    return f"{', '.join(f.name for f in features)} in '{shape.name}' with {setting}"
