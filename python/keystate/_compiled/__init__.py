"""The code that runs for every row, compiled if a C compiler was found at installation.

``native.c`` and ``plain.py`` have the same functions with the same results. The environment
variable ``KEYSTATE_NATIVE=0`` chooses the one in Python; workers need the variable too. A Python
without its global lock also uses the one in Python, since the compiled code needs the lock.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from keystate._compiled.plain import (
    Cells,
    Cursor,
    MapCells,
    Marks,
    ValueCells,
    call_with_context,
    call_with_row,
    collect,
    make_rows,
    row_reader,
    row_taker,
)

__all__ = [
    "NATIVE",
    "Cells",
    "Cursor",
    "MapCells",
    "Marks",
    "ValueCells",
    "call_with_context",
    "call_with_row",
    "collect",
    "make_rows",
    "row_reader",
    "row_taker",
]


def _native() -> Any:
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)
    if os.environ.get("KEYSTATE_NATIVE") == "0" or not has_lock():
        return None
    try:
        return import_module("keystate._compiled.native")
    except ImportError:
        return None


#: The compiled module; ``None`` if all is done in Python.
NATIVE = _native()

if NATIVE is not None:
    Cursor, Cells = NATIVE.Cursor, NATIVE.Cells  # type: ignore[misc]
    ValueCells, MapCells = NATIVE.ValueCells, NATIVE.MapCells  # type: ignore[misc]
    call_with_context, call_with_row = NATIVE.call_with_context, NATIVE.call_with_row
    collect, make_rows = NATIVE.collect, NATIVE.make_rows
    Marks = NATIVE.Marks  # type: ignore[misc]
    row_reader, row_taker = NATIVE.RowReader, NATIVE.RowTaker
