"""Which release of Delta Lake and Iceberg goes with which Spark, by docs/side-outputs.md."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "side-outputs.md"
LINE = ".".join(pyspark.__version__.split(".")[:2])
_ROW = re.compile(r"^\| (\d+\.\d+) \| (\S+) \| ([\w ]*)\| (\S+) \| ([\w ]*)\|$", re.M)


def pairs() -> dict[str, dict[str, tuple[str | None, str]]]:
    """For each line, of Delta and of Iceberg: coordinates for Maven, and whether that is tested."""
    return {
        line: {
            "delta": (_coordinates(delta), delta_tested.strip()),
            "iceberg": (_coordinates(iceberg), iceberg_tested.strip()),
        }
        for line, delta, delta_tested, iceberg, iceberg_tested in _ROW.findall(PAGE.read_text())
    }


def _coordinates(cell: str) -> str | None:
    return None if cell == "none" else cell.strip("`")


def release(kind: str) -> str | None:
    """That of `delta` or `iceberg` for the installed PySpark; ``None`` if there is none."""
    coordinates, _ = pairs()[LINE][kind]
    return coordinates and coordinates.rpartition(":")[2]
