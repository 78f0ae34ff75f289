"""Files in and files out, one for each micro-batch, for queries that are killed."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame


def write(folder: Path, number: int, rows: pa.Table) -> None:
    """Adds a file, complete at once, that the file source takes after those of lower numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"_{number}"
    pq.write_table(rows, part)
    # The file source takes files in the order of their times.
    os.utime(part, (1e9 + number, 1e9 + number))
    part.rename(folder / f"{number:03}.parquet")


def keep_a_file_a_batch(folder: Path) -> None:
    """After a kill, Spark's file source may know a file of a batch that is not in the offset log.

    Its rows would come together with the next file's, in any order: all sources are made to forget.
    """
    checkpoint = folder / "checkpoint"
    entries = (checkpoint / "offsets").glob("[0-9]*")
    last = max(entries, key=lambda path: int(path.name), default=None)
    # After a version and the query's metadata a line for each source. A stop between two batches
    # leaves gaps: an entry's number is not its batch's.
    offsets = last.read_text().splitlines()[2:] if last else []
    for log in (checkpoint / "sources").glob("[0-9]*"):
        offset = offsets[int(log.name)] if offsets else "-"
        known = -1 if offset == "-" else json.loads(offset)["logOffset"]
        for path in log.glob("[0-9]*"):
            if int(path.name.removesuffix(".compact")) > known:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def saver(folder: Path) -> Callable[[DataFrame, int], None]:
    """Keeps the output of each micro-batch, which replaces what was there of it."""
    out = folder / "output"
    out.mkdir(exist_ok=True)

    def save(df: DataFrame, batch: int) -> None:
        part = out / f"{uuid.uuid4()}.part"
        part.write_text(json.dumps([list(row) for row in df.collect()]))
        part.rename(out / f"{batch}.json")

    return save


def emitted(folder: Path) -> list[tuple[Any, ...]]:
    """What all micro-batches emitted."""
    files = (folder / "output").glob("*.json")
    return sorted(tuple(row) for file in files for row in json.loads(file.read_text()))
