"""Functions go on from the state of Spark's operators in Scala: `SparkStates.scala` has them."""

from __future__ import annotations

from typing import Any

import keystate
import pytest
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
    admin,
)
from keystate.admin import Successor
from pyspark.sql import DataFrame

from tests.rescale.test_import import OURS, PROVIDER, SPARK

ROWS = "user string, n long"
TOTAL = "total long, rows int, last string"
FAR = 4_000_000_000_000
BATCHES = [[("u0", 0), ("u1", 1)], [("u0", 1)], [("u0", 2), ("u1", 2)]]


class GoesOn(KeyedProcessFunction):
    """Tells the states that it was given."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long"))
        self.total = ctx.get_state(ValueStateDescriptor("total", TOTAL))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))
        self.totals = ctx.get_list_state(ListStateDescriptor("totals", TOTAL))
        self.by = ctx.get_map_state(MapStateDescriptor("by", "long", TOTAL))

    def process_element(self, row: Any, ctx: Any) -> Any:
        total = self.total.value()
        told = {
            "count": self.count.value(),
            "total": total and tuple(total),
            "all": list(self.all),
            "totals": [tuple(each) for each in self.totals],
            "by": {rest: tuple(each) for rest, each in sorted(self.by.items())},
        }
        yield row.user, repr(told)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        """None of them comes."""


def total_of(numbers: list[int]) -> Any:
    last = numbers[-1]
    return sum(numbers), len(numbers), f"odd {last}" if last % 2 else None


@pytest.mark.turns
@pytest.mark.parametrize(
    ("operator", "mode", "key"),
    [
        ("transformWithState", "None", "pair"),
        ("transformWithState", "ProcessingTime", "user"),
        ("transformWithState", "EventTime", "pair"),
        ("flatMapGroupsWithState", "EventTime", "user"),
    ],
)
def test_each_row_of_the_page(
    operator: str,
    mode: str,
    key: str,
    spark: Any,
    jvm: Any,
    stream: Any,
    settings: Any,
    tmp_path: Any,
) -> None:
    settings(
        **{
            PROVIDER: f"{SPARK}RocksDBStateStoreProvider",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    how = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 3)
    how[0], how[1], how[2] = operator, mode, key
    fed = stream(ROWS)
    fed.feed(*BATCHES)
    fed.run(lambda df: DataFrame(jvm.SparkStates.state(df._jdf, how), spark))
    settings(**{PROVIDER: OURS, "spark.sql.shuffle.partitions": "3"})

    transforms = operator == "transformWithState"
    states: dict[str, Any] = {"total": lambda old: old.read()}
    if transforms:
        states = {
            "count": lambda old: old.read("count").selectExpr("key", "value.value as value"),
            "total": "total",
            "all": lambda old: old.read("all").selectExpr(
                "key", "list_element.value as list_element"
            ),
            "totals": "totals",
            "by": lambda old: old.read("by").selectExpr(
                "key", "user_map_key.value as user_map_key", "user_map_value"
            ),
        }
    columns = "user string" if key == "user" else "user string, rest long"
    successor = Successor(
        GoesOn(),
        states,
        key=columns,
        timers=lambda old: old.timers(),
        time_mode="auto" if transforms else "event_time",
    )
    target = tmp_path / "functions"
    admin.import_as(str(fed.checkpoint), str(target), {0: successor})
    assert admin.verify(str(target)) == []

    numbers: dict[tuple[Any, ...], list[int]] = {}
    for user, n in (row for batch in BATCHES for row in batch):
        numbers.setdefault((user,) if key == "user" else (user, n % 2), []).append(n)
    timers = admin.read_state(spark, str(target), state="$timers").selectExpr(
        "key.*", "time_domain", "expiration_timestamp_ms"
    )
    domain = "EVENT_TIME" if mode == "EventTime" else "PROCESSING_TIME"
    times = {k: [FAR + n for n in of] if transforms else [FAR] for k, of in numbers.items()}
    assert sorted(map(tuple, timers.collect())) == sorted(
        (*k, domain, time) for k, of in times.items() for time in of if mode != "None"
    )

    fed.checkpoint = target
    fed.feed([("u0", 5), ("u1", 8), ("u2", 9)])
    names = [column.split()[0] for column in columns.split(", ")]
    told = fed.run(
        lambda df: keystate.keyed(
            df.selectExpr("*", "n % 2 AS rest", "timestamp_seconds(9000 + n) AS at").withWatermark(
                "at", "0 seconds"
            ),
            *names,
        ).process(GoesOn(), "user string, told string")
    )
    expected = {}
    for user, n in (("u0", 5), ("u1", 8), ("u2", 9)):
        seen = numbers.get((user,) if key == "user" else (user, n % 2), [])
        by = {rest: [each for each in seen if each % 2 == rest] for rest in (0, 1)}
        expected[user] = repr(
            {
                "count": (len(seen) or None) if transforms else None,
                "total": total_of(seen) if seen else None,
                "all": seen if transforms else [],
                "totals": [total_of(seen[: i + 1]) for i in range(len(seen)) if transforms],
                "by": {rest: total_of(of) for rest, of in by.items() if of and transforms},
            }
        )
    assert dict(map(tuple, told)) == expected
