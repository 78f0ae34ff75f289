"""Times with and without a zone: the zone of this process, and what columns have."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from keystate._spec.specs import DELAY_KEY, resolve_schema
from pyspark.sql import types as T


def marked(schema: str, column: str) -> T.StructType:
    """A schema with the watermark's mark on a column, of any type.

    ``withWatermark`` takes only timestamps, but a cast after it can keep the mark.
    """
    return T.StructType(
        [
            T.StructField(each.name, each.dataType, True, {DELAY_KEY: 0})
            if each.name == column
            else each
            for each in resolve_schema(schema, "the schema").fields
        ]
    )


@contextmanager
def in_zone(name: str) -> Iterator[None]:
    """Lets this process be in a time zone."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
