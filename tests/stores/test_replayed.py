"""Batches that read Kafka and Delta Lake are replayed; what is gone there is told."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from tests.fault.drivers import Started
from tests.stores import lakes
from tests.stores.artifacts import ROOT
from tests.stores.kafka_broker import kafka
from tests.stores.replay_query import KEYS, ROUNDS


@pytest.mark.skipif("SLOW" not in os.environ, reason="160 MB of jars, and a minute; set SLOW=1")
@pytest.mark.parametrize("kind", ["kafka", "delta"])
def test_batches_of_a_topic_and_of_a_table(kind: str, tmp_path: Path) -> None:
    if kind == "delta" and lakes.release("delta") is None:
        pytest.skip("Delta Lake has no release for this Spark")
    with contextlib.ExitStack() as stack:
        place = str(tmp_path / "table")
        if kind == "kafka":
            place = stack.enter_context(kafka(tmp_path))
        script = str(ROOT / "tests/stores/replay_query.py")
        command = [sys.executable, script, kind, place, str(tmp_path)]
        driver = stack.enter_context(Started(command, tmp_path / "driver.log"))
        assert driver.wait(300) == 0, driver.log
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["batches"] >= ROUNDS
    for made in found["replays"]:
        assert made["same"] and made["as emitted"] and made["rows"] > 0, found
    assert found["everyone"] == [True, [f"k{i}" for i in range(KEYS)]]
    for which in ("lost", "lost and allowed"):
        assert (
            "[KEYSTATE_CANNOT_REPLAY] The input of batch 0 can't be read again" in found[which]
        ), which
    assert found.get("kept", {"same": True})["same"]
