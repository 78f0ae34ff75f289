"""Tables of several operators, over a rescale, in a checkpoint whose path has odd characters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, StateTtlConfig, Time, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import AnalysisException

#: Of names of folders, of SQL and of URLs.
ODD = "it's `odd` 50% #1 ä+b.c"


class Count(KeyedProcessFunction):
    """Counts rows; remembers the last one for a while."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        last: ValueStateDescriptor[int] = ValueStateDescriptor("last", "long")
        last.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.last = ctx.get_state(last)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + row.value)
        self.last.update(row.value)
        yield row.key % 2, self.count.value()


def two(df: Any) -> Any:
    first = keystate.keyed(df, "key").process(Count(), "key long, value long", name="first")
    return keystate.keyed(first, "key").process(Count(), "key long, value long", name="second")


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_tables_of_two_operators_over_a_rescale(
    checkpoint_format: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    fed = stream("key long, value long")
    fed.checkpoint = tmp_path / ODD
    keys = range(6)
    fed.feed([(key, 1) for key in keys], [(key, key) for key in keys])
    fed.run(two)
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([(5, 10)])
    fed.run(two)
    checkpoint = str(fed.checkpoint)
    place = f"keystate.`{checkpoint.replace('`', '``')}`"

    def sql(text: str) -> list[Any]:
        return sorted(tuple(row) for row in spark.sql(text).collect())

    shown = spark.sql(f"SHOW TABLES IN {place}").collect()
    both = [("`0`", "count"), ("`0`", "last"), ("`1`", "count"), ("`1`", "last")]
    assert [(row.namespace.rpartition(".")[2], row.tableName) for row in shown[:4]] == both
    assert [row.tableName for row in shown[4:]] == ["$operators", "$versions"]
    operators = "SELECT operator, name, partitions, newest_version FROM"
    assert sql(f"{operators} {place}.`$operators`") == [(0, "second", 3, 3), (1, "first", 3, 3)]
    assert sql(f"SELECT version, partitions FROM {place}.`$versions`") == [(1, 2), (2, 3), (3, 3)]
    with pytest.raises(AnalysisException, match=r"NO_SUCH_STATE.*operator 0: count.*1: count"):
        spark.sql(f"SELECT * FROM {place}.count")

    counts = "SELECT key.key, value.value FROM"
    totals = [(key, 1 + key) for key in range(5)]
    assert sql(f"{counts} {place}.first.count") == [*totals, (5, 16)]
    assert sql(f"{counts} {place}.`1`.count VERSION AS OF 2") == [*totals, (5, 6)]
    assert sql(f"{counts} {place}.second.count VERSION AS OF 1") == [(0, 3), (1, 3)]
    assert sql(f"{counts} {place}.second.count WHERE key.key = 0") == [(0, 12)]
    # A state with a time to live is there as it is stored.
    assert sql(f"{counts} {place}.first.last WHERE key.key > 3") == [(4, 4), (5, 10)]
    changed = f"SELECT version, key.key, value.value FROM {place}.first.`count$changes`"
    assert sql(changed) == [
        *((1, key, 1) for key in keys),
        *((2, key, 1 + key) for key in keys),
        (3, 5, 16),
    ]
    assert sql(f"{changed} WHERE key.key = 5") == [(1, 5, 1), (2, 5, 6), (3, 5, 16)]
    assert admin.verify(checkpoint) == []
    found = admin.history(checkpoint, key=5, operator=1)
    assert [version.states["count"] for version in found] == [1, 6, 16]
    # What reads states in Python reads these tables.
    state = admin.read_state(spark, checkpoint, state="count", operator=0, version=1)
    assert state.schema == spark.table(f"{place}.second.count").schema
    assert sorted(map(tuple, state.selectExpr("key.key", "value.value").collect())) == [
        (0, 3), (1, 3)
    ]  # fmt: skip
