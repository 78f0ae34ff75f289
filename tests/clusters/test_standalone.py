"""On a standalone cluster whose machines have Spark and Python, and nothing of Keystate."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import accounts
from tests.clusters.shipped import Shipped
from tests.fault import batch_files, events
from tests.fault.drivers import SPARK_HOME, Standalone, Started, committed, standalone

HOSTS = ["127.0.0.1", "127.0.0.2"]
#: Nothing of the clone reaches a process of the cluster.
ALONE = {"PYTHONPATH": ""}
#: Workers that can be told to go, and that clean up.
WORKER = " ".join(
    f"-D{key}={value}"
    for key, value in {
        "spark.decommission.enabled": "true",
        "spark.worker.cleanup.enabled": "true",
        "spark.worker.cleanup.interval": "1",
        "spark.worker.cleanup.appDataTtl": "1",
        # Executors that their worker has lost sight of.
        "spark.storage.cleanupFilesAfterExecutorExit": "true",
    }.items()
)
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    # Native libraries too are in the folder of the application.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Djava.io.tmpdir=.",
}
TO_THE_END = json.dumps({"availableNow": True})
#: How long a spot machine that is told to go has.
GRACE_S = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    told = {**ALONE, "SPARK_WORKER_OPTS": WORKER}
    with standalone(tmp_path, HOSTS, 1, **told) as started:
        yield started


def submitted(
    cluster: Standalone,
    shipment: Shipped,
    folder: Path,
    partitions: int,
    trigger: str,
    **settings: str,
) -> Started:
    """The query's driver, with the environment that is shipped to the executors too."""
    log = folder / f"{partitions}-partitions"
    (log / "events").mkdir(parents=True)
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url]
    command += shipment.options(folder)
    driver = {"spark.pyspark.driver.python": str(shipment.environment / "bin" / "python")}
    for key, value in {**SETTINGS, **events.settings(log), **driver, **settings}.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(Path(__file__).with_name("app.py")), str(folder), str(partitions), trigger]
    return Started(command, folder / "driver.log", **ALONE)


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: takes two minutes of CPU")
def test_executors_come_and_go(cluster: Standalone, shipment: Shipped, tmp_path: Path) -> None:
    """One is killed; a worker is told to go, as spot machines are, and dies; a rescale follows."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = accounts.make_input(tmp_path, seed)
    rocksdb = {"spark.keystate.backend": "rocksdb"}
    stays, spot = cluster.workers
    with submitted(cluster, shipment, tmp_path, 2, TO_THE_END, **rocksdb) as driver:
        driver.wait_for(lambda: committed(tmp_path) >= 1)
        (executor,) = stays.executors()
        stays.kill(executor)
        driver.wait_for(lambda: bool(set(stays.executors()) - {executor}))
        before = committed(tmp_path)
        driver.wait_for(lambda: committed(tmp_path) > before)
        spot.send(signal.SIGPWR)
        time.sleep(GRACE_S)
        spot.kill_all()
        before = committed(tmp_path)
        driver.wait_for(lambda: committed(tmp_path) > before)
        driver.kill_all()
    batch_files.keep_a_file_a_batch(tmp_path)
    assert committed(tmp_path) < accounts.FILES, "it ended too early"
    with submitted(cluster, shipment, tmp_path, 3, TO_THE_END, **rocksdb) as driver:
        assert driver.wait(300) == 0, driver.log
    assert accounts.emitted(tmp_path) == expected
    assert accounts.is_whole(tmp_path)
    gone = events.logged(tmp_path / "2-partitions", "ExecutorRemoved")
    reasons = [event["Removed Reason"].lower() for event in gone]
    assert any("decommission" in reason for reason in reasons), reasons
    came_from = accounts.places(tmp_path)
    assert len(came_from) > 2, "one executor did it all"
    work = str(tmp_path / "work")
    assert all(path.startswith(work) for place in came_from for path in place), came_from
    # An executor that was killed leaves nothing either.
    stays.wait_for(lambda: not list((tmp_path / "local" / HOSTS[0]).rglob("*keystate*")), 30)
    stays.wait_for(lambda: not list((tmp_path / "work" / HOSTS[0]).iterdir()), 30)
