"""Checkpoints that are restarted without the jar, the extension or the provider they need."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import keystate
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keystate import admin
from keystate._jvm.session import PROVIDER, PROVIDER_KEY
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.fault import missing_parts_query as query
from tests.fault.drivers import Driver

SPARKS = "org.apache.spark.sql.execution.streaming.state"
HDFS, ROCKSDB = f"{SPARKS}.HDFSBackedStateStoreProvider", f"{SPARKS}.RocksDBStateStoreProvider"
KEYS = 6


class Fed:
    """A query of a kind: each run has one more row of every key."""

    def __init__(self, spark: SparkSession, folder: Path, kind: str) -> None:
        self._spark, self._folder, self._kind, self._files = spark, folder, kind, 0
        (folder / "input").mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"

    def feed(self) -> None:
        part = self._folder / "input" / f"_{self._files}"
        pq.write_table(pa.table({"key": list(range(KEYS))}), part)
        part.rename(self._folder / "input" / f"{self._files}.parquet")
        self._files += 1

    def run(self) -> list[tuple[int, int]]:
        return query.run(self._spark, self._folder, self._kind)

    @property
    def counts(self) -> list[tuple[int, int]]:
        """What the newest batch has to say, if no row was lost or counted twice."""
        return [(key, self._files) for key in range(KEYS)]


@pytest.fixture
def fed(spark: SparkSession, tmp_path: Path) -> Callable[[str], Fed]:
    return lambda kind: Fed(spark, tmp_path / kind, kind)


@pytest.mark.turns
def test_jar_or_extension_missing_at_a_restart(
    spark: SparkSession, fed: Callable[[str], Fed], tmp_path: Path
) -> None:
    queries = {kind: fed(kind) for kind in query.QUERIES}
    for each in queries.values():
        each.feed()
        assert each.run() == each.counts
        each.feed()
    files = {kind: contents(each.checkpoint) for kind, each in queries.items()}
    outcomes = {}
    for missing in ("jar", "extension"):
        with Driver("missing_parts_query.py", tmp_path / "log", tmp_path, missing) as driver:
            assert driver.wait() == 0, driver.log
        outcomes[missing] = json.loads((tmp_path / f"no {missing}").read_text())
        if missing == "jar":
            assert "KEYSTATE_JAR_MISSING" in outcomes["jar"]["keyed"]
            assert "keystate.configure(SparkSession.builder)" in outcomes["jar"]["keyed"]
            # Spark's own operators need the class of the provider that the checkpoint names.
            assert PROVIDER in outcomes["jar"]["grouped"]
            for kind, each in queries.items():
                assert contents(each.checkpoint).items() >= files[kind].items()
    assert "KEYSTATE_EXTENSION_MISSING" in outcomes["extension"]["keyed"]
    # They don't need it.
    assert outcomes["extension"]["grouped"] == str(queries["grouped"].counts)
    queries["grouped"].feed()
    for each in queries.values():
        assert each.run() == each.counts
        assert admin.verify(str(each.checkpoint)) == []


def contents(checkpoint: Path) -> dict[str, bytes]:
    """Every file that a query may not lose."""
    return {
        str(path.relative_to(checkpoint)): path.read_bytes()
        for path in checkpoint.rglob("*")
        if path.is_file() and not path.name.endswith(".crc")
    }


@pytest.mark.parametrize("other", [HDFS, ROCKSDB])
def test_sparks_provider_on_a_checkpoint_of_keystate(
    other: str, fed: Callable[[str], Fed], settings: Callable[..., None]
) -> None:
    keyed, grouped = fed("keyed"), fed("grouped")
    for each in (keyed, grouped):
        each.feed()
        assert each.run() == each.counts
        each.feed()
    settings(**{PROVIDER_KEY: other})
    with pytest.raises(keystate.ConfigurationError) as failure:
        keyed.run()
    assert failure.value.code == "KEYSTATE_PROVIDER_MISSING"
    # A query of Spark's own goes on with the provider that its checkpoint names.
    assert grouped.run() == grouped.counts
    grouped.feed()
    settings(**{PROVIDER_KEY: PROVIDER})
    for each in (keyed, grouped):
        assert each.run() == each.counts
        assert admin.verify(str(each.checkpoint)) == []


@pytest.mark.turns
@pytest.mark.parametrize("other", [HDFS, ROCKSDB])
def test_keystates_provider_on_a_checkpoint_of_spark(
    other: str,
    spark: SparkSession,
    fed: Callable[[str], Fed],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{PROVIDER_KEY: other})
    grouped = fed("grouped")
    grouped.feed()
    assert grouped.run() == grouped.counts
    grouped.feed()
    settings(**{PROVIDER_KEY: PROVIDER})
    assert grouped.run() == grouped.counts
    grouped.feed()
    # A function there would lose what Spark's operator has.
    before = contents(grouped.checkpoint)
    with pytest.raises(StreamingQueryException, match="KEYSTATE_OPERATORS_CHANGED"):
        query.run(spark, tmp_path / "grouped", "keyed")
    assert contents(grouped.checkpoint).items() >= before.items()
    assert grouped.run() == grouped.counts
