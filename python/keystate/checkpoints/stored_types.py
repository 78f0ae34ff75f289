"""Types in a checkpoint: JSON that others may have written."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import types as T

from keystate.errors import CheckpointError


def stored_type(text: str, state: str) -> T.DataType:
    """A type from its JSON; PySpark runs no code of it.

    Raises:
        CheckpointError: the type is not one of Spark's.
    """
    node = json.loads(text)
    foreign = foreign_types(node)
    if foreign:
        raise CheckpointError(
            f"state '{state}' has the type {foreign[0]}, which is not one "
            "of Spark's: PySpark would run it to read the state",
            code="KEYSTATE_CORRUPT_FILE",
        )
    field = {"name": "type", "type": node, "nullable": True, "metadata": {}}
    return T.StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType


def foreign_types(node: Any) -> list[str]:
    """Types in a type's JSON that PySpark would import and call, or unpickle."""
    if isinstance(node, list):
        return [name for part in node for name in foreign_types(part)]
    if not isinstance(node, dict):
        return []
    if node.get("type") == "udt":
        name = str(node.get("pyClass"))
        known = name.startswith("pyspark.ml.linalg.") and "serializedClass" not in node
        return [] if known else [name]
    return foreign_types(list(node.values()))
