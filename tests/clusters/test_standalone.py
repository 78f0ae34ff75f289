"""On a standalone cluster whose machines have Spark and Python, and nothing of Keystate."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import accounts
from tests.clusters.shipped import Shipped
from tests.clusters.submitted import SLOWLY, TO_THE_END, submitted
from tests.fault import batch_files, events
from tests.fault.drivers import Standalone, Started, committed, standalone

HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
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
#: Executors follow the load. What they shuffled does not hold them for long.
DYNAMIC = {
    # New ones get tasks whose state others have loaded, or they would be idle until they end.
    "spark.locality.wait": "0s",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
}
#: A micro-batch takes an executor three seconds.
SECONDS_A_ROW = 3 / accounts.ROWS
#: How long a spot machine that is told to go has.
GRACE_S = 3


@contextlib.contextmanager
def workers(folder: Path, hosts: list[str]) -> Iterator[Standalone]:
    """A cluster with a core on each host."""
    # Nothing of the clone reaches a process of the cluster.
    told = {"PYTHONPATH": "", "SPARK_WORKER_OPTS": WORKER}
    with standalone(folder, hosts, 1, **told) as cluster:
        yield cluster


def started(
    cluster: Standalone,
    shipment: Shipped,
    folder: Path,
    partitions: int,
    trigger: str = TO_THE_END,
    seconds: float = 0,
    **settings: str,
) -> Started:
    # Native libraries too are in the folder of the application.
    java = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Djava.io.tmpdir=."}
    master = ["--master", cluster.url]
    own = {**java, **settings}
    return submitted(shipment, folder, partitions, trigger, master, own, seconds)


def next_batch(driver: Started, folder: Path) -> None:
    before = committed(folder)
    driver.wait_for(lambda: committed(folder) > before)


def lose(spot: Started) -> None:
    """Tells a machine to go, and takes it away after the grace period."""
    spot.send(signal.SIGPWR)
    time.sleep(GRACE_S)
    spot.kill_all()


def reasons(folder: Path) -> list[str]:
    """Why executors went."""
    gone = events.logged(folder, "ExecutorRemoved")
    return [event["Removed Reason"].lower() for event in gone]


def is_clean(folder: Path, host: str) -> bool:
    """Whether nothing is left in the folders of a worker."""
    work = list((folder / "work" / host).iterdir())
    return not work and not list((folder / "local" / host).rglob("*keystate*"))


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: takes two minutes of CPU")
def test_executors_come_and_go(shipment: Shipped, tmp_path: Path) -> None:
    """One is killed; a worker is told to go, as spot machines are, and dies; a rescale follows."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = accounts.make_input(tmp_path, seed)
    with workers(tmp_path, HOSTS[:2]) as cluster:
        stays, spot = cluster.workers
        with started(cluster, shipment, tmp_path, 2) as driver:
            driver.wait_for(lambda: committed(tmp_path) >= 1)
            (executor,) = stays.executors()
            stays.kill(executor)
            driver.wait_for(lambda: bool(set(stays.executors()) - {executor}))
            next_batch(driver, tmp_path)
            lose(spot)
            next_batch(driver, tmp_path)
            driver.kill_all()
        batch_files.keep_a_file_a_batch(tmp_path)
        assert committed(tmp_path) < accounts.FILES, "it ended too early"
        with started(cluster, shipment, tmp_path, 3) as driver:
            assert driver.wait(300) == 0, driver.log
        # An executor that was killed leaves nothing either.
        stays.wait_for(lambda: is_clean(tmp_path, HOSTS[0]), 30)
    assert accounts.emitted(tmp_path) == expected
    assert accounts.is_whole(str(tmp_path / "checkpoint"))
    told = reasons(tmp_path / "2-partitions")
    assert any("decommission" in reason for reason in told), told
    came_from = accounts.places(tmp_path)
    assert len(came_from) > 2, "one executor did it all"
    work = str(tmp_path / "work")
    assert all(path.startswith(work) for place in came_from for path in place), came_from


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: takes two minutes of CPU")
def test_executors_follow_the_load(shipment: Shipped, tmp_path: Path) -> None:
    """With dynamic allocation executors end between micro-batches, and others start in the next.

    A spot machine goes too, the driver is killed, and a rescale follows.
    """
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = accounts.make_input(tmp_path, seed)
    came: set[int] = set()

    def went() -> set[int]:
        """The executors that were seen and are no more."""
        now = {pid for worker in cluster.workers for pid in worker.executors()}
        came.update(now)
        return came - now

    slow = SECONDS_A_ROW
    with workers(tmp_path, HOSTS) as cluster:
        with started(cluster, shipment, tmp_path, 6, SLOWLY, slow, **DYNAMIC) as driver:
            driver.wait_for(lambda: len(went()) >= 2 and len(accounts.places(tmp_path)) >= 3)
            lose(max(cluster.workers, key=lambda worker: len(worker.executors())))
            next_batch(driver, tmp_path)
            driver.kill_all()
        batch_files.keep_a_file_a_batch(tmp_path)
        assert committed(tmp_path) < accounts.FILES, "it ended too early"
        with started(cluster, shipment, tmp_path, 4, TO_THE_END, slow, **DYNAMIC) as driver:
            assert driver.wait(300) == 0, driver.log
    assert accounts.emitted(tmp_path) == expected
    assert accounts.is_whole(str(tmp_path / "checkpoint"))
    told = reasons(tmp_path / "6-partitions")
    assert any("decommission" in reason for reason in told), told
