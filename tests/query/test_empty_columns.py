"""Columns of messages that have no values yet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)


class Nested(KeyedProcessFunction):
    """Has states of lists, and never puts anything into them."""

    def open(self, ctx: Any) -> None:
        kind = "a array<array<long>>, b map<string, array<string>>"
        ctx.get_state(ValueStateDescriptor("value", kind))
        ctx.get_list_state(ListStateDescriptor("list", "array<long>"))
        ctx.get_map_state(MapStateDescriptor("map", "string", "array<long>"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key


@pytest.fixture
def busy_buffer(spark: Any) -> Iterator[None]:
    """Does to Arrow's one empty buffer what a task with empty lists does, again and again."""
    empty = spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getEmpty()
    end = threading.Event()

    def write() -> None:
        while not end.is_set():
            empty.writerIndex(4)
            empty.writerIndex(0)

    thread = threading.Thread(target=write)
    thread.start()
    yield
    end.set()
    thread.join()


@pytest.mark.usefixtures("busy_buffer")
def test_tasks_share_no_memory(spark: Any, settings: Any) -> None:
    settings(**{"spark.sql.execution.arrow.maxRecordsPerBatch": "10"})
    rows = spark.range(5000).selectExpr("id % 500 AS key")
    assert keystate.keyed(rows, "key").process(Nested(), "key long").count() == 5000
