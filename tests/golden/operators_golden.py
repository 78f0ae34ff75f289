"""A query of Spark's own operators, whose checkpoints are kept here."""

from __future__ import annotations

from pathlib import Path

NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
EMITTED = "emitted.json"
KEPT = 2  # micro-batches that a kept checkpoint had


def source_of(checkpoint: Path) -> str:
    return f"file://{checkpoint.with_name('input')}"


def move_source(checkpoint: Path, place: str, to: str) -> None:
    """The log of the source's files has their paths, absolutely."""
    for path in (checkpoint / "sources" / "0").glob("[0-9]*"):
        path.write_text(path.read_text().replace(place, to))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
