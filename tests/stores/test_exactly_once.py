"""Results in Kafka, exactly once, whatever is killed."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keystate import admin

from tests.fault import batch_files, sessions
from tests.fault import restart_query as query
from tests.fault.drivers import CLUSTER, Started, committed, standalone
from tests.fault.faults import Plan
from tests.stores.artifacts import ROOT
from tests.stores.kafka_broker import Broker

pytestmark = pytest.mark.skipif("SLOW" not in os.environ, reason="150 MB of jars; set SLOW=1")

V2 = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
V1 = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}

# The process that comes to such a step halts. Batch N is `commits/N`, and its files `staged/N-...`.
DEATHS = {
    "a task amid its file": ("write", 500, r"staged/2-"),
    "a task, after its file": ("renamed", 1, r"staged/3-"),
    "the driver, before the commit log": ("rename", 1, r"commits/4$"),
    "the driver, before it publishes": ("renamed", 1, r"commits/5$"),
    "who publishes, before it reads": ("open", 1, r"staged/6-"),
    "who publishes, amid its files": ("open", 2, r"staged/8-"),
    "the driver, after it published": ("delete", 1, r"staged/10-"),
    "the driver, amid the deletion": ("delete", 2, r"staged/12-"),
}


# Tasks publish, instead of the driver.
BY_TASKS = {"driverBytes": "0"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.address


class Run:
    """A query with its input and its topic."""

    def __init__(self, folder: Path, servers: str, sink: str = "keystate-kafka") -> None:
        self.seed = random.randrange(10**9)
        print(f"seed {self.seed}")
        self.folder = folder
        self.servers = servers
        self.sink = sink
        self.topic = f"t{self.seed}"
        self.expected = query.make_input(folder, self.seed)
        self.plan = Plan(folder / "plan")

    def start(self, master: str, partitions: int = 2, **settings: str) -> Started:
        arguments = [self.folder, self.servers, self.topic, self.sink, master, partitions]
        return self._script([*arguments, json.dumps(settings)])

    def _script(self, arguments: list[Any]) -> Started:
        script = str(ROOT / "tests/stores/exactly_once_query.py")
        command = [sys.executable, script, *map(str, arguments)]
        return Started(command, self.folder / "driver.log")

    def read(self) -> list[tuple[int, int, str]]:
        """What consumers of committed records see, each key's in its order."""
        with self._script(
            [self.folder, self.servers, self.topic, "read", "local[1]", 1, "{}"]
        ) as r:
            assert r.wait() == 0, r.log
        records = json.loads((self.folder / "read.json").read_text())
        values = [(key, *json.loads(value)) for _, _, key, value in records]
        return [(int(number), int(key), state) for key, number, state in values]

    def check(self, leftovers: bool = False) -> None:
        """Nothing is lost, nothing comes twice, and each key's rows are in their order.

        Args:
            leftovers: whether a zombie may have left staged files, which a later start deletes.
        """
        read = self.read()
        assert sorted(read) == self.expected
        for key in range(query.KEYS):
            of_key = [number for number, of, _ in read if of == key]
            assert of_key == sorted(of_key)
        staged = list((self.folder / "checkpoint/_keystate").glob("staged/[0-9]*"))
        assert leftovers or not staged


def test_once_without_failures(tmp_path: Path, servers: str) -> None:
    run = Run(tmp_path, servers)
    with run.start("local[2]") as driver:
        assert driver.wait() == 0, driver.log
    run.check()
    metrics = json.loads((tmp_path / "metrics.json").read_text())[-1]["metrics"]
    assert int(metrics["transactionsCommitted"]) == query.FILES
    assert int(metrics["rowsPublished"]) == query.FILES * query.ROWS
    assert metrics["transactionsOpen"] == metrics["transactionsRecovered"] == "0"


@pytest.mark.parametrize("settings", [V1, {**V2, **BY_TASKS}], ids=["v1", "v2, tasks"])
def test_killed_at_each_step(settings: dict[str, str], tmp_path: Path, servers: str) -> None:
    run = Run(tmp_path, servers)
    for name, (step, nth, pattern) in DEATHS.items():
        run.plan.add(name, step, nth, "halt", pattern)
    for attempt in range(len(DEATHS) + 1):
        with run.start(CLUSTER, 2 + attempt % 3, **settings) as driver:
            if driver.wait() == 0:
                break
        batch_files.keep_a_file_a_batch(tmp_path)
    assert committed(tmp_path) == query.FILES, driver.log
    assert run.plan.happened() == set(DEATHS)
    run.check()


@pytest.mark.parametrize("step", ["rename", "renamed"])
def test_two_drivers(step: str, tmp_path: Path, servers: str) -> None:
    """One is held before it writes the commit log, or publishes, and the other one goes on."""
    run = Run(tmp_path, servers)
    run.plan.add("held", step, 1, "hold", r"commits/5$")
    with run.start("local[2]") as first:
        first.wait_for(lambda: run.plan.happened() == {"held"})
        with run.start("local[2]", 3) as second:
            assert second.wait() == 0, second.log
        run.plan.release("held")
        assert first.wait() != 0, first.log
    run.check(leftovers=True)


def test_two_attempts_publish(tmp_path: Path, servers: str) -> None:
    """A task that publishes is held, and Spark runs it a second time."""
    run = Run(tmp_path, servers)
    run.plan.add("held", "open", 3, "hold", r"staged/")
    speculation = sessions.speculation("200ms")
    with (
        standalone(tmp_path, ["127.0.0.1", "127.0.0.2"], cores=2) as cluster,
        run.start(cluster.url, 4, **V2, **BY_TASKS, **speculation) as driver,
    ):
        driver.wait_for(lambda: run.plan.happened() == {"held"})
        held_at = committed(tmp_path)
        driver.wait_for(lambda: committed(tmp_path) > held_at + 1)
        run.plan.release("held")
        assert driver.wait() == 0, driver.log
    run.check()


def test_savepoints(spark: Any, tmp_path: Path, servers: str) -> None:
    """A savepoint has what was not published; the checkpoint that it left behind is refused."""
    run = Run(tmp_path, servers)
    run.plan.add("before it publishes", "renamed", 1, "halt", r"commits/5$")
    with run.start("local[2]") as driver:
        assert driver.wait() != 0
    batch_files.keep_a_file_a_batch(tmp_path)
    admin.savepoint(str(tmp_path / "checkpoint"), str(tmp_path / "copy"), spark=spark)
    with run.start("local[2]", checkpoint="copy") as driver:
        assert driver.wait() == 0, driver.log
    run.check(leftovers=True)
    with run.start("local[2]") as driver:
        assert driver.wait() != 0
        assert "KEYSTATE_SINK_AHEAD" in driver.log
    # Nothing was published by that.
    run.check(leftovers=True)
    with run.start("local[2]", sinkId="another") as driver:
        assert driver.wait() == 0, driver.log
    assert len(run.read()) == len(run.expected) + 15 * query.ROWS


def test_broker_killed(tmp_path: Path, broker: Broker) -> None:
    run = Run(tmp_path, broker.address)
    with run.start("local[2]") as driver:
        for batches in (3, 9, 15):
            driver.wait_for(lambda batches=batches: committed(tmp_path) >= batches)
            broker.kill()
            time.sleep(1)
            broker.start()
        assert driver.wait() == 0, driver.log
    run.check()


def test_killed_at_random(tmp_path: Path, servers: str) -> None:
    """Executors and drivers, with other partitions each time, KEYSTATE_KILLS times or a few."""
    wanted, killed = int(os.environ.get("KEYSTATE_KILLS", "1")), 0
    while killed < wanted:
        folder = tmp_path / f"{killed}"
        folder.mkdir()
        run = Run(folder, servers)
        killed += kill_until_done(run)
        run.check(leftovers=True)
    print(f"{killed} kills")


def test_sparks_sink_writes_twice(tmp_path: Path, servers: str) -> None:
    """What these tests would see if the sink did not work."""
    run = Run(tmp_path, servers, "kafka")
    run.plan.add("the driver, before the commit log", "rename", 1, "halt", r"commits/4$")
    for expected in (137, 0):
        with run.start("local[2]") as driver:
            assert (driver.wait() == 0) == (expected == 0), driver.log
    read = run.read()
    assert sorted(set(read)) == run.expected
    assert len(read) == len(run.expected) + query.ROWS


def kill_until_done(run: Run) -> int:
    """Returns how often something was killed."""
    rng = random.Random(run.seed)
    kills = 0
    while committed(run.folder) < query.FILES:
        before = committed(run.folder)
        with run.start(CLUSTER, rng.randint(1, 4), **V2, **rng.choice([{}, BY_TASKS])) as driver:
            wanted = before + rng.randint(1, 4)
            while driver.exit_code is None and committed(run.folder) < min(wanted, query.FILES):
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.3))
            if driver.exit_code is None and rng.random() < 0.5 and driver.executors():
                driver.kill(rng.choice(driver.executors()))
                kills += 1
                time.sleep(rng.uniform(0, 3))
            if driver.exit_code is None:
                driver.kill_all()
                kills += 1
        batch_files.keep_a_file_a_batch(run.folder)
    with run.start("local[2]") as driver:
        assert driver.wait() == 0, driver.log
    return kills
