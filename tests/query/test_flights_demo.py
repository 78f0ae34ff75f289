"""The flights demo gives the rows that a batch of window functions gives, killed or not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import keystate
import pytest
from keystate._types.waiting import wait_until
from pyspark.sql import functions as sf

from examples.flights.legs import AircraftLegs
from examples.flights.query import flights, legs, start
from examples.flights.reference import differences
from examples.flights.results import close_views, open_views
from examples.flights.summary import headline, print_tables
from examples.flights.why import Sleepless, walk
from examples.flights.workspace import Workspace
from tests import jvm_archive

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def three_weeks(spark, tmp_path_factory):
    """The folders of an undisturbed run over 21 days in 3 micro-batches."""
    out = tmp_path_factory.mktemp("flights")
    workspace = Workspace(out, out / "checkpoint", days=21, days_per_file=7)
    workspace.prepare()
    start(spark, workspace).awaitTermination()
    assert workspace.committed() == workspace.batches() == 3
    return workspace


def test_rows_equal_the_batch_computation(spark, three_weeks):
    result = spark.read.parquet(str(three_weeks.result))
    expected = flights(spark, three_weeks)
    assert result.count() == expected.count() > 18_000
    assert result.where("chain > 1").count() > 0
    assert result.where("visibility IS NULL").count() < 500
    assert result.select("visibility").distinct().count() > 5
    assert differences(result, expected) == 0


def test_comparison_sees_a_single_wrong_value(spark, three_weeks):
    result = spark.read.parquet(str(three_weeks.result))
    first = (sf.col("tailnum") == "N14228") & (sf.col("leg") == 1)
    changed = result.withColumn("slack", sf.when(first, 0).otherwise(sf.col("slack")))
    assert differences(changed, flights(spark, three_weeks)) == 2  # one missing, one too many


@pytest.mark.turns
def test_summary_and_picture(spark, three_weeks, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from examples.flights.picture import save_picture

    open_views(spark, three_weeks)
    try:
        words = headline(spark)
        print_tables(spark)
        save_picture(spark, tmp_path / "flights.png", words)
    finally:
        close_views(spark)
    assert "Back within ten hours" in words
    assert "JetBlue Airways" in capsys.readouterr().out
    assert (tmp_path / "flights.png").stat().st_size > 50_000


def test_a_batch_is_replayed_with_the_weather_and_a_bug_found_in_its_row(spark, three_weeks):
    result = spark.read.parquet(str(three_weeks.result))
    # After a night, and the one before came late.
    night = "gap > 600 AND prev_arr_delay > 0 AND dep_delay > 0"
    row = result.where(night).orderBy("minute", ascending=False).first()
    made, wrong = (
        keystate.replay(
            legs(spark, three_weeks, function),
            str(three_weeks.checkpoint),
            batch=2,
            key=row.tailnum,
        )
        for function in (AircraftLegs(), Sleepless())
    )
    assert made.same and row in [emitted for step in made for emitted in step.emitted]
    assert not wrong.same and [one.state for one in wrong.differences] == ["previous"]
    mine, theirs = wrong.first_difference(made)
    assert mine.row == theirs.row and mine.emitted[0].gap > 600 and theirs.emitted[0].carried == 0


@pytest.mark.skipif(not os.environ.get("SLOW"), reason="runs the query once more")
def test_the_walk_of_the_docs(spark, tmp_path, capsys):
    workspace = Workspace(tmp_path, tmp_path / "checkpoint", days=4, days_per_file=1)
    workspace.prepare()
    walk(spark, workspace)
    page = (ROOT / "docs" / "why.md").read_text()
    assert f"```text\n{capsys.readouterr().out}```" in page


@pytest.mark.turns
def test_killed_driver_resumes_to_the_same_rows(spark, tmp_path):
    workspace = Workspace(tmp_path, tmp_path / "checkpoint", days=7, days_per_file=1)
    kill_demo_after(3, workspace)
    committed, total = workspace.committed(), workspace.batches()
    assert 0 < committed < total - 1, "the kill did not come midway"
    plan_ahead(workspace)

    resumed = start(spark, workspace)
    resumed.awaitTermination()
    assert resumed.recentProgress[0].batchId == committed, "it did not go on where it was killed"
    assert workspace.committed() == total - 1, "no micro-batch had two files of flights"
    result = spark.read.parquet(str(workspace.result))
    assert differences(result, flights(spark, workspace)) == 0


def plan_ahead(workspace: Workspace) -> None:
    """Leaves what a kill within planning leaves: the flights' source has noted its next file, but
    the micro-batch is not planned. Spark adds that file to the next micro-batch.
    """
    planned = max(int(entry.name) for entry in files(workspace.checkpoint / "offsets"))
    log = workspace.checkpoint / "sources" / "0"
    noted = max(int(entry.name) for entry in files(log))
    if noted == planned:
        path = workspace.input / f"{noted + 1:03}.parquet"
        stamp = int(path.stat().st_mtime * 1000)
        entry = {"path": path.as_uri(), "timestamp": stamp, "batchId": noted + 1}
        (log / str(noted + 1)).write_text("v1\n" + json.dumps(entry))


def files(log: Path) -> list[Path]:
    """The entries of one of Spark's logs."""
    return [entry for entry in log.iterdir() if entry.name.isdigit()]


def kill_demo_after(batches: int, workspace: Workspace) -> None:
    """Runs the demo's command and kills it, JVM and all, once ``batches`` are committed."""
    command = [sys.executable, "-m", "examples.flights", "--no-picture"]
    command += ["--out", str(workspace.out), "--checkpoint", str(workspace.checkpoint)]
    command += ["--days", str(workspace.days), "--days-per-file", str(workspace.days_per_file)]
    log = workspace.out / "demo.log"
    with log.open("wb") as output:
        demo = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **jvm_archive.session_environment()},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: workspace.committed() >= batches or demo.poll() is not None,
            f"{batches} micro-batches",
            300,
        )
        assert demo.poll() is None, log.read_text()
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
        demo.wait()
    wait_until(lambda: not alive(demo.pid), "the end of all processes", 30)


def alive(group: int) -> bool:
    """Whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
