"""A query with state into a table of Iceberg."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from keystate._jvm.session import FORMAT_KEY

from tests import jvm_archive
from tests.fault import faults
from tests.fault.drivers import Started, committed
from tests.stores import lakes
from tests.stores.artifacts import jars_for_spark
from tests.stores.test_delta import FILES, KILLS, feed, results


@pytest.mark.skipif("SLOW" not in os.environ, reason="40 MB of jars, and minutes; set SLOW=1")
@pytest.mark.skipif(
    lakes.release("iceberg") is None, reason="Iceberg has no release for this Spark"
)
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_killed_after_icebergs_commit_and_rescaled(checkpoint_format: str, tmp_path: Path) -> None:
    """Two batches are run again, with other partitions; the table has each batch once."""
    made = feed(tmp_path / "input")
    plan = faults.Plan(tmp_path / "plan")
    release = str(lakes.release("iceberg"))
    settings = {
        "spark.jars": jars_for_spark("iceberg", spark=lakes.LINE, iceberg=release),
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": jvm_archive.OPTIONS,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"),
        FORMAT_KEY: checkpoint_format,
        **faults.settings(tmp_path / "plan"),
    }
    lines = [f"{key} {value}" for key, value in settings.items()]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))

    def query(partitions: int, *result: str) -> Started:
        folders = [str(tmp_path / "input"), f"fault://{tmp_path / 'checkpoint'}"]
        command = [sys.executable, "-m", "tests.stores.iceberg_query", *folders, str(partitions)]
        log = tmp_path / "query.log"
        environment = faults.environment(tmp_path / "plan")
        return Started([*command, *result], log, SPARK_CONF_DIR=str(tmp_path), **environment)

    for partitions, batch in KILLS:
        plan.add(f"{batch}", "create", 1, "hold", rf"commits/{batch}$")
        with query(partitions) as running:
            running.wait_for(lambda name=f"{batch}": name in plan.happened())
        assert committed(tmp_path) == batch
    result = tmp_path / "result.json"
    with query(3, str(result)) as last:
        assert last.wait() == 0, last.log
    assert committed(tmp_path) == FILES
    rows, batches = json.loads(result.read_text())
    # Two of them were run again. Iceberg has no second snapshot of these.
    assert batches == [str(batch) for batch in range(FILES)]
    assert sorted(map(tuple, rows)) == results(made)
