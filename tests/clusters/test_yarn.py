"""On YARN, whose nodes have Python and nothing else."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import accounts
from tests.clusters.shipped import Shipped
from tests.clusters.yarn_cluster import Yarn, submission
from tests.fault import batch_files, events
from tests.fault.drivers import Started, committed

HOSTS = ["127.0.0.2", "127.0.0.3"]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.yarn.am.memory": "256m",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.yarn.maxAppAttempts": "2",
    "spark.keystate.backend": "rocksdb",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
EXECUTOR, MASTER = "YarnCoarseGrainedExecutorBackend", "deploy.yarn.ApplicationMaster "


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Yarn]:
    with Yarn(tmp_path).started(HOSTS) as cluster:
        yield cluster


def submitted(yarn: Yarn, mode: str, shipment: Shipped, folder: Path, partitions: int) -> Started:
    command, environment = submission(yarn, mode)
    log = folder / mode
    (log / "events").mkdir(parents=True)
    settings = {
        **SETTINGS,
        **events.settings(log),
        "spark.yarn.stagingDir": (folder / "staging").as_uri(),
    }
    if mode == "client":
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.pyspark.driver.python"] = str(shipment.environment / "bin" / "python")
    command += shipment.options(folder)
    command += [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    command += [str(Path(__file__).with_name("app.py")), str(folder), str(partitions)]
    command.append(json.dumps({"availableNow": True}))
    return Started(command, folder / "driver.log", **environment)


@pytest.mark.skipif("SLOW" not in os.environ, reason="100 MB of jars; set SLOW=1")
def test_executors_come_and_go(yarn: Yarn, shipment: Shipped, tmp_path: Path) -> None:
    """In client mode one is killed and a node is decommissioned; the restart rescales in cluster
    mode, where the driver's container is killed too."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = accounts.make_input(tmp_path, seed)
    with submitted(yarn, "client", shipment, tmp_path, 2) as driver:
        driver.wait_for(lambda: committed(tmp_path) >= 1)
        executor = yarn.containers(EXECUTOR)[0]
        os.kill(executor, signal.SIGKILL)
        driver.wait_for(lambda: len(set(yarn.containers(EXECUTOR)) - {executor}) >= 2)
        yarn.decommission(HOSTS[1], 60)
        decommissioned = driver.text(
            rf"(?i)(decommission\w* .*{HOSTS[1]}|{HOSTS[1]}.*decommission)"
        )
        assert decommissioned
        before = committed(tmp_path)
        driver.wait_for(lambda: committed(tmp_path) > before)
        driver.kill_all()
    batch_files.keep_a_file_a_batch(tmp_path)
    before = committed(tmp_path)
    assert before < accounts.FILES, "it ended too early"
    with submitted(yarn, "cluster", shipment, tmp_path, 3) as driver:
        driver.wait_for(lambda: committed(tmp_path) > before)
        (master,) = yarn.containers(MASTER)
        os.kill(master, signal.SIGKILL)
        assert driver.wait() == 0, driver.log
    assert accounts.emitted(tmp_path) == expected
    assert accounts.is_whole(tmp_path)
    came_from = accounts.places(tmp_path)
    assert len(came_from) > 2, "one executor did it all"
    local = str(tmp_path / "yarn" / "local")
    assert all(path.startswith(local) for place in came_from for path in place), came_from
