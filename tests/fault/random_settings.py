"""Everything that may change at a restart, drawn at random: a query must not notice.

As RocksDB's crash test does, each start of a query takes other settings. Which ones, the seed says.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pyspark
from keystate._jvm.session import FORMAT_KEY, versions

ROOT = Path(__file__).resolve().parents[2]
#: Whether a query with checkpoint format v1 may have v2 at a later start.
CAN_GO_UP = not pyspark.__version__.startswith("4.1.")
#: The first value of each is what tests have else.
SETTINGS = {
    "spark.keystate.backend": ("auto", "hashmap", "rocksdb"),
    # With `auto`: as much as some of the stores have, and room for all.
    "spark.keystate.auto.heapShare": ("1e-5", "0.4"),
    "spark.keystate.rocksdb.memoryMB": ("256", "8", "64"),
    "spark.keystate.rocksdb.writeBufferRatio": ("0.5", "0.1", "0.9"),
    "spark.keystate.rocksdb.predefinedOptions": (
        "DEFAULT",
        "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        "FLASH_SSD_OPTIMIZED",
    ),
    # A worker that forgets each key at once, and one that is sent no list and no map.
    "spark.keystate.worker.maxCachedKeys": ("200000", "1", "7"),
    "spark.keystate.worker.inlineEntries": ("1000", "0", "2"),
    "spark.keystate.broadcast.check": ("false", "true"),
    "spark.keystate.checkpoint.sync": ("false", "true"),
    "spark.keystate.ui.sampleKeys": ("0", "3"),
    "spark.sql.streaming.minBatchesToRetain": ("100", "2", "10"),
    "spark.sql.streaming.stateStore.maintenanceInterval": ("60s", "1s", "5s"),
    "spark.sql.execution.arrow.maxRecordsPerBatch": ("10000", "1", "13"),
    "spark.sql.codegen.wholeStage": ("true", "false"),
}


@dataclass(frozen=True)
class Opening:
    """How a query is started."""

    partitions: int
    settings: dict[str, str]
    #: What the driver is told, and by it the executors.
    environment: dict[str, str]

    def __str__(self) -> str:
        own = [f"{key}={value}" for key, value in (self.settings | self.environment).items()]
        return " ".join([f"partitions={self.partitions}", *own])


@cache
def javas() -> dict[str, str]:
    """The homes of the JDKs that are here and that this Spark runs on, by their numbers."""
    known = versions()
    line = pyspark.__version__.rpartition(".")[0]
    found = {}
    for number in known.get(f"javas{line}", known["javas"]).split():
        run = [str(ROOT / "tests" / "jdk.sh"), number]
        home = subprocess.run(run, capture_output=True, text=True, check=False).stdout.strip()
        if home:
            found[number] = home
    return found


def draw(rng: Random, partitions: int, checkpoint_format: str) -> Opening:
    """The next start.

    Args:
        rng: says all of it; each call takes as many numbers from it, whatever is here.
        partitions: those of the start before, of which there are others now; 0 for the first start.
        checkpoint_format: the first start has it. After `1` it may be `2`, and never goes back.
    """
    settings = {key: rng.choice(values) for key, values in SETTINGS.items()}
    goes_up, native, java = rng.random() < 0.1, rng.choice(("", "0")), rng.random()
    settings[FORMAT_KEY] = "2" if CAN_GO_UP and goes_up and partitions else checkpoint_format
    others = [number for number in range(1, 7) if number != partitions]
    environment = {"KEYSTATE_NATIVE": native} if native else {}
    if javas():
        environment["JAVA_HOME"] = list(javas().values())[int(java * len(javas()))]
    return Opening(rng.choice(others), settings, environment)
