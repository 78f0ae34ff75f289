"""Checkpoints that are kept go on as if the query had never stopped, also on newer Sparks.

The name of an archive says its backend, its checkpoint format and its line of Spark.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from keystate import admin
from pyspark.sql import Row

from tests import spark_queries
from tests.golden import aggregates_golden
from tests.golden.golden_query import BACKEND, FORMAT, INPUT, PARTITIONS, batches, build, move
from tests.golden.operators_golden import EMITTED, KEPT, NO_DATA, move_source, source_of

HERE = Path(__file__).parent
ARCHIVES = sorted(path.name for path in HERE.glob("*.tar.gz"))
OF_AGGREGATES = sorted(path.name for path in (HERE / "aggregates").glob("*.tar.gz"))
OF_OPERATORS = sorted(path.name for path in (HERE / "operators").glob("*.tar.gz"))


def skip_if_newer(archive: str) -> None:
    """Skips what a newer Spark wrote."""
    found = re.search(r"-spark(\d+)\.(\d+)", archive)
    assert found is not None
    writer = [int(part) for part in found.groups()]
    if [int(part) for part in pyspark.__version__.split(".")[:2]] < writer:
        pytest.skip("Spark does not promise to go on from a checkpoint of a newer line")


def settings_of(archive: str, other: bool) -> dict[str, str]:
    """Those that an archive was made with, or with which it is to go on otherwise."""
    backend, checkpoint_format = archive.removesuffix(".tar.gz").split("-")[:2]
    if other:
        backend = {"hashmap": "rocksdb", "rocksdb": "hashmap"}[backend]
    return {
        BACKEND: backend,
        FORMAT: checkpoint_format[1:],
        PARTITIONS: "3" if other else "2",
    }


def extract(archive: Path, folder: Path) -> None:
    """Unpacks an archive."""
    with tarfile.open(archive) as tar:
        # Python before 3.10.12 and 3.11.4 does not know filters, and from 3.12 on it warns without.
        safe: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(folder, **safe)


def unpack(archive: Path, fed: Any) -> None:
    """Puts an archive's checkpoint where a stream's is."""
    extract(archive, fed.checkpoint.parent)
    move(fed.checkpoint, "CHECKPOINT", f"file:{fed.checkpoint}")


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    """What the last batch of one uninterrupted run emits, filled by the first test."""
    return []


@pytest.mark.parametrize("archive", ARCHIVES)
@pytest.mark.parametrize("other", [False, True], ids=["as it was", "rescaled, other backend"])
def test_a_kept_checkpoint_goes_on(
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    expected: list[Any],
    archive: str,
    other: bool,
) -> None:
    skip_if_newer(archive)
    settings(**settings_of(archive, other))
    *first, last = batches()
    if not expected:
        whole = stream(INPUT)
        whole.feed(*first)
        whole.run(build)
        whole.feed(last)
        expected += sorted(map(tuple, whole.run(build)))
        assert len(expected) > len(last)
    fed = stream(INPUT)
    unpack(HERE / archive, fed)
    fed.feed(last)
    assert sorted(map(tuple, fed.run(build))) == expected


def without_text(found: Any) -> Any:
    return found.n if isinstance(found, Row) else found


def test_a_key_is_looked_up_in_files_of_every_form(spark: Any, tmp_path: Path) -> None:
    """All have the state of the same batches, some with longer texts."""
    looked_up: dict[str, Any] = {}
    for archive in ARCHIVES:
        extract(HERE / archive, tmp_path / archive)
        checkpoint = str(tmp_path / archive / "checkpoint")
        looked_up[archive] = {
            (state, key): without_text(
                admin.lookup(checkpoint, state=state, operator=0, key=f"key {key}")
            )
            for state in ("value", "list", "map", "sorted", "total")
            for key in (0, 1, 2, 150, 299, 300)
        }
    first = looked_up[ARCHIVES[0]]
    assert [place for place, found in first.items() if found is None] == [
        (state, 300) for state in ("value", "list", "map", "sorted", "total")
    ]
    for archive, found in looked_up.items():
        assert found == first, archive


@pytest.fixture(scope="module")
def expected_aggregates() -> list[Any]:
    """As `expected`, of the query of aggregates, with what the tables then show."""
    return []


def aggregates_in(checkpoint: Path, spark: Any) -> list[Any]:
    """What tables of state show of each operator: keys, windows and their aggregates."""
    found = []
    for number, name in enumerate(aggregates_golden.NAMES):
        state = admin.read_state(spark, str(checkpoint), state="_aggregate", operator=number)
        window = ["user_map_key"] if "user_map_key" in state.columns else []
        rows = state.select("key", *window, "aggregates").collect()
        assert rows
        found += sorted((name, *map(repr, row)) for row in rows)
    return found


@pytest.mark.parametrize("archive", OF_AGGREGATES)
@pytest.mark.parametrize("other", [False, True], ids=["as it was", "rescaled, other backend"])
def test_aggregates_of_columns_go_on(
    spark: Any,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    expected_aggregates: list[Any],
    archive: str,
    other: bool,
) -> None:
    """The buffers are Spark's: a newer one reads them, and goes on from them."""
    skip_if_newer(archive)
    settings(**settings_of(archive, other))
    *first, last = aggregates_golden.batches()
    if not expected_aggregates:
        whole = stream(aggregates_golden.INPUT)
        whole.feed(*first)
        whole.run(aggregates_golden.build)
        shown = aggregates_in(whole.checkpoint, spark)
        whole.feed(last)
        emitted = sorted(map(tuple, whole.run(aggregates_golden.build)))
        assert {name for name, _ in emitted} == set(aggregates_golden.NAMES)
        expected_aggregates += [shown, emitted]
    fed = stream(aggregates_golden.INPUT)
    unpack(HERE / "aggregates" / archive, fed)
    assert aggregates_in(fed.checkpoint, spark) == expected_aggregates[0]
    fed.feed(last)
    found = sorted(map(tuple, fed.run(aggregates_golden.build)))
    assert found == expected_aggregates[1]


@pytest.mark.parametrize("archive", OF_OPERATORS)
@pytest.mark.parametrize("other", [False, True], ids=["as it was", "rescaled, other backend"])
def test_operators_of_spark_go_on(
    spark: Any,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    archive: str,
    other: bool,
) -> None:
    skip_if_newer(archive)
    settings(**settings_of(archive, other), **{NO_DATA: "false"})
    fed = stream(spark_queries.SCHEMA)
    unpack(HERE / "operators" / archive, fed)
    move_source(fed.checkpoint, "INPUT", source_of(fed.checkpoint))
    emitted = [tuple(row) for row in json.loads((fed.checkpoint.parent / EMITTED).read_text())]
    before, rest = spark_queries.batches()[:KEPT], spark_queries.batches()[KEPT:]
    fed.feed(*before)  # The source has had these.
    for batch in rest:
        fed.feed(batch)
        emitted += map(tuple, fed.run(spark_queries.sql_operators))
    spark_queries.check_sql(spark, emitted)
