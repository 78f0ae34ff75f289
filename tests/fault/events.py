"""Spark's event log of a driver: what happened to its executors and tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def settings(folder: Path) -> dict[str, str]:
    """What a session needs to write it below a folder, which has `events` already."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def logged(folder: Path, event: str) -> list[dict[str, Any]]:
    """The events of a kind, such as `TaskEnd`, of the only driver that wrote there."""
    (log,) = (folder / "events").iterdir()
    found = map(json.loads, log.read_text().splitlines())
    return [each for each in found if each["Event"] == f"SparkListener{event}"]
