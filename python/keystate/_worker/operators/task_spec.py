"""The description of an operator that its tasks get, besides the function."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import types as T

from keystate._spec.specs import OperatorSpec


class TaskSpec(NamedTuple):
    """An operator as it was declared.

    Attributes:
        spec: with its states.
        keys: the key columns.
        rows: the columns of its first input.
        output: what it emits.
        broadcast: the columns of what is broadcast to it; ``None`` if nothing is.
        second: the columns of its second input; ``None`` if it has none.
    """

    spec: OperatorSpec
    keys: T.StructType
    rows: T.StructType
    output: T.StructType
    broadcast: T.StructType | None = None
    second: T.StructType | None = None
