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
    last = max((int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*")), default=-1)
    for path in (checkpoint / "sources").glob("*/[0-9]*"):
        if int(path.name.removesuffix(".compact")) > last:
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
