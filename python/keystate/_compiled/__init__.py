"""What is done for every row: compiled, if a C compiler was there when Keystate was installed.

``native.c`` and ``plain.py`` have the same, and give the same. The environment variable
``KEYSTATE_NATIVE=0`` chooses the one in Python; workers need it too.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from keystate._compiled.plain import (
    Cells,
    Cursor,
    MapCells,
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
    "ValueCells",
    "call_with_context",
    "call_with_row",
    "collect",
    "make_rows",
    "row_reader",
    "row_taker",
]


def _native() -> Any:
    if os.environ.get("KEYSTATE_NATIVE") == "0":
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
    row_reader, row_taker = NATIVE.RowReader, NATIVE.RowTaker
