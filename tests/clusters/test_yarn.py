"""On YARN, whose machines have Spark and Python, and nothing of Keystate."""

from __future__ import annotations

import random
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import accounts
from tests.clusters.shipped import Shipped
from tests.clusters.submitted import SLOWLY, TO_THE_END, submitted
from tests.clusters.yarn_cluster import Yarn, yarn
from tests.fault import batch_files, events
from tests.fault.drivers import SPARK_HOME, Started, committed
from tests.stores.hdfs_cluster import Hdfs, hdfs

#: The first one has room for an application master and an executor, the other for an executor.
HOSTS = ["127.0.0.2", "127.0.0.3"]
CONTAINER_MB = 1024
AGGREGATED = {
    "yarn.log-aggregation-enable": "true",
    "yarn.nodemanager.remote-app-log-dir": "/logs",
}
#: How long a node that is told to go has.
GRACE_S = 5
SETTINGS = {
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.yarn.am.memory": "512m",
    "spark.executor.instances": "2",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Yarn]:
    with yarn(tmp_path / "yarn") as cluster:
        yield cluster


def started(
    cluster: Yarn, shipment: Shipped, folder: Path, mode: str, partitions: int, trigger: str
) -> Started:
    options = ["--master", "yarn", "--deploy-mode", mode]
    settings = {**SETTINGS, **cluster.settings()}
    told = cluster.environment()
    return submitted(shipment, folder, partitions, trigger, options, settings, **told)


def next_batch(driver: Started, folder: Path) -> None:
    before = committed(folder)
    driver.wait_for(lambda: committed(folder) > before)


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: takes two minutes of CPU")
def test_executors_nodes_and_drivers_go(cluster: Yarn, shipment: Shipped, tmp_path: Path) -> None:
    """In client mode an executor is killed, a node decommissioned, and the driver killed.

    In cluster mode the query goes on with other partitions; YARN restarts a driver that is killed.
    """
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = accounts.make_input(tmp_path, seed)
    stays, goes = HOSTS
    cluster.start_node(stays, 2 * CONTAINER_MB)
    with started(cluster, shipment, tmp_path, "client", 2, SLOWLY) as driver:
        # Or the master might be on the node that goes.
        driver.wait_for(lambda: bool(cluster.masters(stays)))
        node = cluster.start_node(goes, CONTAINER_MB)
        driver.wait_for(lambda: committed(tmp_path) >= 1)
        (executor,) = cluster.executors(stays)
        driver.kill(executor)
        driver.wait_for(lambda: bool(set(cluster.executors(stays)) - {executor}))
        next_batch(driver, tmp_path)
        cluster.decommission(goes, GRACE_S)
        driver.wait_for(lambda: node.exit_code is not None)
        assert goes in cluster.nodes("DECOMMISSIONED")
        next_batch(driver, tmp_path)
        driver.kill_all()
    cluster.manager.wait_for(lambda: cluster.applications() == ["FINISHED"], 60)
    batch_files.keep_a_file_a_batch(tmp_path)
    assert committed(tmp_path) < accounts.FILES, "it ended too early"
    with started(cluster, shipment, tmp_path, "cluster", 3, TO_THE_END) as submit:
        next_batch(submit, tmp_path)
        (driven,) = cluster.masters(stays)
        submit.kill(driven)
        assert submit.wait(500) == 0, submit.log
        assert not cluster.masters(stays)
    assert accounts.emitted(tmp_path) == expected
    assert accounts.is_whole(str(tmp_path / "checkpoint"))
    gone = events.logged(tmp_path / "2-partitions", "ExecutorRemoved")
    reasons = [event["Removed Reason"] for event in gone]
    assert any(f"Decommissioning all executors on {goes}" in reason for reason in reasons), reasons
    came_from = accounts.places(tmp_path)
    assert len(came_from) > 3, "an executor did too much"
    local = str(cluster.local)
    assert all(path.startswith(local) for place in came_from for path in place), came_from
    cluster.manager.wait_for(lambda: not cluster.left(), 30)


def spark_jars(folder: Path) -> Path:
    """What `spark.yarn.archive` names: Spark's jars in one file."""
    archive = folder / "spark-jars.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for jar in (SPARK_HOME / "jars").glob("*.jar"):
            packed.write(jar, jar.name)
    return archive


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: takes two minutes of CPU")
def test_all_in_hdfs(shipment: Shipped, tmp_path: Path) -> None:
    """HDFS is the default file system: Spark's jars, what is shipped, and the checkpoint are there.

    In cluster mode an executor is killed, then the driver, which YARN starts again; the application
    is ended, and another one goes on with other partitions. The logs of both are in HDFS in the
    end, and nothing else of them is anywhere.
    """
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = accounts.make_input(tmp_path, seed)
    (host, _) = HOSTS
    with hdfs(tmp_path) as store, yarn(tmp_path / "yarn", store.url, AGGREGATED) as cluster:
        cluster.start_node(host, 3 * CONTAINER_MB)
        archive = spark_jars(tmp_path)
        cluster.put(archive, "/spark")
        archive.unlink()

        def query(partitions: int, trigger: str) -> Started:
            own = {
                **SETTINGS,
                "spark.yarn.archive": f"hdfs:///spark/{archive.name}",
                "spark.eventLog.enabled": "false",
            }
            options = ["--master", "yarn", "--deploy-mode", "cluster"]
            return submitted(
                shipment,
                tmp_path,
                partitions,
                trigger,
                options,
                own,
                checkpoint="/checkpoint",
                **cluster.environment(),
            )

        def next_batch(submit: Started) -> None:
            before = batches(store)
            submit.wait_for(lambda: batches(store) > before)

        with query(2, SLOWLY) as submit:
            next_batch(submit)
            executors = cluster.executors(host)
            submit.kill(executors[0])
            submit.wait_for(lambda: bool(set(cluster.executors(host)) - set(executors)))
            next_batch(submit)
            (driven,) = cluster.masters(host)
            submit.kill(driven)
            next_batch(submit)
            cluster.end_application()
            submit.wait()
        assert batches(store) < accounts.FILES, "it ended too early"
        with query(3, TO_THE_END) as submit:
            assert submit.wait(500) == 0, submit.log
        assert cluster.applications() == ["KILLED", "FINISHED"]
        assert accounts.emitted(tmp_path) == expected
        assert accounts.is_whole(f"{store.url}/checkpoint")
        assert any(path.startswith("checkpoint/state/0/") for path in store.files("checkpoint/"))
        cluster.manager.wait_for(lambda: not store.files("user/") and not cluster.left(), 60)
        ended, finished = map(by_container, cluster.logs())
    # Also of the executor and the driver that were killed.
    first = [text for name, text in ended.items() if name.startswith("01_")]
    assert len(first) >= 4 and "02_000001" in ended, ended.keys()
    assert sum("accounts are open" in text for text in first) >= 2, first
    driver = finished.pop("01_000001")
    assert f"Rescaled {store.url}/checkpoint from 2 to 3 partitions" in driver, driver
    assert any("accounts are open" in text for text in finished.values()), finished
    local = str(cluster.local)
    came_from = accounts.places(tmp_path)
    assert all(path.startswith(local) for place in came_from for path in place), came_from


def by_container(logs: str) -> dict[str, str]:
    """What `yarn logs` prints, by attempt and container: `01_000001` is the first driver."""
    texts: dict[str, str] = {}
    _, *parts = re.split(r"^Container: container_\d+_\d+_(\d+_\d+) on ", logs, flags=re.M)
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        texts[name] = texts.get(name, "") + text
    return texts


def batches(store: Hdfs) -> int:
    """How many micro-batches are in the commit log."""
    commits = [path.rsplit("/", 1)[1] for path in store.files("checkpoint/commits/")]
    return sum(name.isdigit() for name in commits)
