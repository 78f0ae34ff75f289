"""A Kafka broker on loopback."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.fault.drivers import Started
from tests.stores.artifacts import jars
from tests.stores.ports import free_port, is_open


@contextlib.contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """A broker, whose topics have two partitions; yields its address."""
    port, controller = free_port(), free_port()
    settings = folder / "kafka.properties"
    settings.write_text(
        "\n".join(
            [
                "process.roles=broker,controller",
                "node.id=1",
                f"controller.quorum.voters=1@127.0.0.1:{controller}",
                f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
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
    java = ["java", "-Xmx512m", "-cp", ":".join(map(str, jars("kafka")))]
    tool = [*java, "kafka.tools.StorageTool"]
    name = subprocess.run([*tool, "random-uuid"], check=True, capture_output=True, text=True)
    identity = ["-t", name.stdout.split()[-1], "-c", str(settings)]
    subprocess.run([*tool, "format", *identity], check=True, capture_output=True)
    with Started([*java, "kafka.Kafka", str(settings)], folder / "kafka.log") as broker:
        broker.wait_for(lambda: is_open(port), 60)
        yield f"127.0.0.1:{port}"
