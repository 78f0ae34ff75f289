"""examples/kafka_counts.py on a broker on loopback."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest

from tests.fault.drivers import Started
from tests.stores import kafka_topics as feed
from tests.stores.artifacts import KAFKA_SOURCE, ROOT, jars_for_spark
from tests.stores.kafka_broker import kafka


@pytest.mark.skipif("SLOW" not in os.environ, reason="150 MB of jars; set SLOW=1")
def test_killed_and_rescaled(tmp_path: Path) -> None:
    """The example is killed several times while records come, each time with other partitions."""
    (tmp_path / "results.wait").touch()
    (tmp_path / "rounds").write_text("0")
    checkpoint = tmp_path / "checkpoint"
    settings = {
        "spark.jars": jars_for_spark("kafka-spark", **KAFKA_SOURCE),
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
    }
    lines = [f"{key} {value}" for key, value in settings.items()]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))

    def committed() -> int:
        folder = checkpoint / "commits"
        numbers = [int(path.name) for path in folder.glob("[0-9]*")] if folder.exists() else []
        return max(numbers, default=-1)

    with kafka(tmp_path) as servers:

        def example(partitions: int, *more: str) -> Started:
            topics = [servers, "in", "out", str(checkpoint), "--records", "500"]
            arguments = [*topics, "--partitions", str(partitions), *more]
            return Started(
                [sys.executable, "-m", "examples.kafka_counts", *arguments],
                tmp_path / "example.log",
                SPARK_CONF_DIR=str(tmp_path),
            )

        script = str(ROOT / "tests/stores/kafka_topics.py")
        feeder = [sys.executable, script, servers, str(tmp_path)]
        with Started(feeder, tmp_path / "feeder.log") as feeding:
            feeding.wait_for(lambda: (tmp_path / "rounds").read_text() not in ("", "0"))
            for partitions in (2, 5):
                before = committed()
                with example(partitions) as running:
                    wanted = before + random.randint(2, 4)
                    running.wait_for(lambda wanted=wanted: committed() >= wanted)
            feeding.wait_for(lambda: (tmp_path / "rounds").read_text() == str(feed.ROUNDS))
            with example(4, "--once") as last:
                assert last.wait() == 0, last.log
            (tmp_path / "results.wait").unlink()
            assert feeding.wait() == 0, feeding.log
    results = json.loads((tmp_path / "results.json").read_text())
    each = feed.ROUNDS * feed.ROWS // feed.KEYS
    keys = [f"k{i}" for i in range(feed.KEYS)]
    assert results["state"] == dict.fromkeys(keys, each)
    assert results["problems"] == [] and results["partitions"] == 4
    # Each count of each key was written, maybe more than once; always with the same value: the
    # records of a key are counted in their order.
    values = {key: {} for key in keys}
    for key, text in results["written"]:
        count, value = text.split()
        assert values[key].setdefault(int(count), value) == value
    for i, key in enumerate(keys):
        expected = {n + 1: str(n * feed.KEYS + i) for n in range(each)}
        assert values[key] == expected
