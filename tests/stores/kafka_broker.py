"""A Kafka broker on loopback."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fault.drivers import Started
from tests.stores.artifacts import jars
from tests.stores.ports import free_port, is_open


class Broker:
    """A broker, whose topics have two partitions; it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._settings = folder / "kafka.properties"
        self._settings.write_text(
            "\n".join(
                [
                    "process.roles=broker,controller",
                    "node.id=1",
                    f"controller.quorum.voters=1@127.0.0.1:{controller}",
                    f"listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
                    f"advertised.listeners=PLAINTEXT://{self.address}",
                    "controller.listener.names=CONTROLLER",
                    f"log.dirs={folder / 'kafka'}",
                    "offsets.topic.replication.factor=1",
                    "transaction.state.log.replication.factor=1",
                    "transaction.state.log.min.isr=1",
                    "share.coordinator.state.topic.replication.factor=1",
                    "share.coordinator.state.topic.min.isr=1",
                    "group.initial.rebalance.delay.ms=0",
                    "num.partitions=2",
                ]
            )
        )
        self._java = ["java", "-Xmx512m", "-cp", ":".join(map(str, jars("kafka")))]
        tool = [*self._java, "kafka.tools.StorageTool"]
        name = subprocess.run([*tool, "random-uuid"], check=True, capture_output=True, text=True)
        identity = ["-t", name.stdout.split()[-1], "-c", str(self._settings)]
        subprocess.run([*tool, "format", *identity], check=True, capture_output=True)

    def start(self) -> None:
        """Returns once it can be called."""
        command = [*self._java, "kafka.Kafka", str(self._settings)]
        self._process = Started(command, self._folder / "kafka.log")
        self._process.wait_for(lambda: is_open(self._port), 60)

    def kill(self) -> None:
        self._process.kill_all()

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.kill()


@contextlib.contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """A broker; yields its address."""
    with Broker(folder) as broker:
        yield broker.address
