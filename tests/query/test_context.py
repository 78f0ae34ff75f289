"""What a function is told, and when."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    ReducingStateDescriptor,
    SourceFunction,
    StateAccessError,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from keystate._operators.discovery import discover_states
from keystate._spec.specs import DELAY_KEY, resolve_state
from keystate._worker.calls.sent import SentFunction
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.state.open_state import open_state
from keystate.testing import KeyedProcessHarness
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.shapes import SHAPES, Shape, shape_name
from tests.zones import in_zone


class Reports(KeyedProcessFunction):
    """Emits what the runtime context said, and where the function lives."""

    def open(self, ctx: Any) -> None:
        self.said = (
            ctx.get_task_name(),
            ctx.get_task_name_with_subtasks(),
            ctx.get_index_of_this_subtask(),
            ctx.get_number_of_parallel_subtasks(),
            ctx.get_max_number_of_parallel_subtasks(),
            ctx.get_attempt_number(),
        )
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.unused = ctx.get_map_state(MapStateDescriptor("unused", "long", "long"))
        self.rows = 0

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.rows += 1
        self.count.update(self.count.value() + 1)
        assert ctx.timestamp() is None
        assert ctx.timer_service().current_watermark() is None
        yield (*self.said, row.key, self.count.value(), f"{os.getpid()} {self.rows}")


REPORT = (
    "name string, full string, subtask int, parallelism int, groups int, attempt int,"
    " key long, count long, place string"
)


SOLD = "key string, value long"


class Prices(KeyedProcessFunction):
    """Has a variable of sc.broadcast as an attribute, twice, and sums up what it says."""

    def __init__(self, rates: Any) -> None:
        self.rates = self.again = rates

    def open(self, ctx: Any) -> None:
        assert self.rates is self.again and self.rates.value["a"] == 10
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.sum.update(self.sum.value() + self.rates.value[row.key] * row.value)
        yield row.key, self.sum.value()


def test_broadcast_variables(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    """As in functions of Spark: in each way to give one, over micro-batches and starts."""

    def sold(df: Any) -> Any:
        rates = spark.sparkContext.broadcast({"a": 10, "b": 100})
        return keystate.keyed(df, "key").process(Prices(rates), "key string, n long")

    fed = stream(SOLD)
    rounds = [[("a", 1), ("b", 2)], [("a", 3)]]
    fed.feed(*rounds)
    assert sorted(fed.run(sold)) == [("a", 10), ("a", 40), ("b", 200)]
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([("b", 1), ("a", 1)])
    assert sorted(fed.run(sold)) == [("a", 50), ("b", 300)]
    made = keystate.replay(sold(fed.source()), str(fed.checkpoint), key="a", batch=1)
    assert made.same
    with pytest.raises(DeclarationError, match="without broadcast variables"):
        made.as_test(str(tmp_path / "test_a.py"))

    rates = spark.sparkContext.broadcast({"a": 10, "b": 100})
    more = spark.sparkContext.broadcast(7)
    df = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], SOLD).coalesce(1)
    keyed = keystate.keyed(df, "key")

    def price(row: Any, ctx: Any) -> Any:
        yield row.key, rates.value[row.key] * row.value + more.value

    async def asked(row: Any, ctx: Any) -> Any:
        return row.key, rates.value[row.key] * row.value + more.value

    priced = [("a", 17), ("a", 37), ("b", 207)]
    out = "key string, n long"
    assert sorted(keyed.process(price, out).collect()) == priced
    assert sorted(keyed.process(asked, out).collect()) == priced
    mapped = keyed.map(lambda row: (row.key, rates.value[row.key] * row.value + more.value), out)
    assert sorted(mapped.collect()) == priced
    added = keyed.reduce(lambda a, b: (a.key, a.value + b.value + more.value))
    assert sorted(added.collect()) == [("a", 11), ("b", 2)]
    for harness in (
        KeyedProcessHarness(Prices(rates), SOLD, "key", out),
        KeyedProcessHarness(price, SOLD, "key", out),
    ):
        with harness:
            assert harness.process(("a", 1)) in ([("a", 10)], [("a", 17)])


def test_a_source_has_no_broadcast_variables(spark: Any) -> None:
    class Numbers(SourceFunction):
        def __init__(self, numbers: Any) -> None:
            self.numbers = numbers

        def run(self, ctx: Any) -> None: ...

        def cancel(self) -> None: ...

    variable = spark.sparkContext.broadcast([1])
    with pytest.raises(DeclarationError, match=r"its attribute 'numbers' of .*Numbers is a broad"):
        keystate.source(spark, Numbers(variable), "n long")


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_runtime_context_empty_batches_and_partitions(
    stream: Callable[..., Any], shape: Shape
) -> None:
    def build(df: Any) -> Any:
        told = keystate.keyed(df, "key", max_parallelism=16).process(
            Reports(), REPORT, name="reports"
        )
        return shape(df, told)

    fed = stream("key long")
    # A batch without rows, and one whose only row leaves a subtask without any.
    fed.feed([], [(1,)], [], [(key,) for key in range(20)])
    first = fed.run(build)
    fed.feed([], [(1,)])
    rows = first + fed.run(build)
    for row in rows:
        assert (row.name, row.parallelism, row.groups, row.attempt) == ("reports", 2, 16, 0)
        assert row.full == f"reports ({row.subtask + 1}/2)"
    assert {row.subtask for row in rows} == {0, 1}
    assert len({row.subtask for row in rows if row.key == 1}) == 1
    assert [row["count"] for row in rows if row.key == 1] == [1, 2, 3]
    # An opened function is one object for all that it counts; a worker can have both subtasks'.
    assert len({(row.subtask, row.place) for row in first}) == len(first)


class Places(ProcessFunction):
    def open(self, ctx: Any) -> None:
        self.place = ctx.get_index_of_this_subtask(), ctx.get_number_of_parallel_subtasks()

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield self.place


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_subtasks_of_a_batch_query(spark: Any, shape: Shape) -> None:
    rows = spark.range(0, 40, 1, 4).select((F.col("id") % 8).alias("key"))
    found = shape(rows, keystate.stream(rows).process(Places(), "subtask int, of int"))
    assert {tuple(row) for row in found.collect()} == {(i, 4) for i in range(4)}


class InNewYork(KeyedProcessFunction):
    """Emits a row's event time, and the watermark at a timer a minute later."""

    def open(self, ctx: Any) -> None:
        ten = StateTtlConfig.new_builder(Time.seconds(10)).use_event_time().build()
        seen = ValueStateDescriptor("seen", "boolean", default=False)
        seen.enable_time_to_live(ten)
        self.seen = ctx.get_state(seen)

    def process_element(self, row: Any, ctx: Any) -> Any:
        with in_zone("America/New_York"):
            time = ctx.timestamp()
            yield row.key, "seen" if self.seen.value() else "new", time
            self.seen.update(True)
            if row.sets:
                ctx.timer_service().register_event_time_timer(time + 60_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), "timer", timestamp


def test_event_time_without_a_zone(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """It is by the watermark's clock, in whatever zone the worker is.

    Spark's withWatermark takes no such column, but one that is cast later can keep the mark.
    """
    settings(**{"spark.sql.session.timeZone": "UTC"})
    fed = stream("key long, time timestamp, sets boolean")
    noon = 1_704_110_400_000

    def at(second: int) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(noon // 1000 + second, datetime.timezone.utc)

    def build(df: Any) -> Any:
        marked = df.withWatermark("time", "0 seconds")
        plain = F.col("time").cast("timestamp_ntz").alias("time", metadata={DELAY_KEY: 0})
        rows = marked.select("key", plain, "sets")
        return keystate.keyed(rows, "key").process(InNewYork(), "key long, what string, ms long")

    fed.feed([(1, at(0), True)], [(1, at(5), False)], [(3, at(30), False)], [(1, at(59), False)])
    before = [tuple(row) for row in fed.run(build)]
    assert [row for row in before if row[0] == 1] == [
        (1, "new", noon),
        (1, "seen", noon + 5000),
        (1, "new", noon + 59_000),
    ]
    fed.feed([(2, at(61), False)], [(2, at(62), False)])
    after = [tuple(row) for row in fed.run(build)]
    assert sorted(after) == [
        (1, "timer", noon + 60_000),
        (2, "new", noon + 61_000),
        (2, "seen", noon + 62_000),
    ]


class Clock(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        yield row.key, timers.current_processing_time(), timers.current_watermark()


def test_clocks_of_a_replayed_batch(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    schema = "key long, time timestamp"
    spark.sql("SELECT 1L AS key, now() AS time").write.mode("append").parquet(f"{tmp_path}/input")
    seen: list[Any] = []

    def run(fail: bool) -> None:
        def save(df: Any, batch: int) -> None:
            seen.extend((batch, *row) for row in df.collect())
            if fail:
                raise ValueError("the sink fails")

        stream = spark.readStream.schema(schema).parquet(f"{tmp_path}/input")
        stream = stream.withWatermark("time", "1 hour")
        out = keystate.keyed(stream, "key").process(Clock(), "key long, now long, watermark long")
        query = (
            out.writeStream.foreachBatch(save)
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="the sink fails"):
            run(fail=True)
    run(fail=False)
    assert len(seen) == 3
    assert len(set(seen)) == 1


@pytest.mark.parametrize(
    "descriptor",
    [
        ValueStateDescriptor("s", "long"),
        ValueStateDescriptor("s", "struct<a: long>"),
        ReducingStateDescriptor("s", max, "long"),
        ListStateDescriptor("s", "long"),
        MapStateDescriptor("s", "long", "long"),
    ],
    ids=lambda d: type(d).__name__,
)
def test_a_state_without_a_key(spark: Any, descriptor: Any) -> None:
    """Between rows every use of a state fails, rather than give another key's data."""
    context = RowContext()
    state: Any = open_state(resolve_state(descriptor), 0, context, descriptor)
    uses = {
        "value": [lambda: state.value(), lambda: state.update(1)],
        "list": [
            lambda: state.get(),
            lambda: state.add_all([1]),
            lambda: list(state),
            lambda: state.add(1),
        ],
        "map": [
            lambda: state.get(1),
            lambda: state.put(1, 1),
            lambda: state.remove(1),
            lambda: 1 in state,
            lambda: list(state),
            lambda: state.items(),
            lambda: state.is_empty(),
        ],
    }
    if isinstance(descriptor, ReducingStateDescriptor):
        uses["value"] = [lambda: state.get(), lambda: state.add(1), lambda: state.add(None)]
    for use in [*uses[descriptor.kind], state.clear]:
        with pytest.raises(StateAccessError, match="no key is being processed"):
            use()
    with pytest.raises(StateAccessError):
        context.get_current_key()


class Forgetful(KeyedProcessFunction):
    """Gets a state on the driver, and not in the worker."""

    def __init__(self, driver: int) -> None:
        self.driver = driver

    def open(self, ctx: Any) -> None:
        if os.getpid() == self.driver:
            ctx.get_state(ValueStateDescriptor("sometimes", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        pass


def test_states_must_not_depend_on_where_open_runs(spark: Any) -> None:
    df = spark.createDataFrame([(1,)], "key long")
    out = keystate.keyed(df, "key").process(Forgetful(os.getpid()), "x long")
    with pytest.raises(Exception, match=r"state 'sometimes' was declared.*open\(\) did not ask"):
        out.collect()


class Closes(KeyedProcessFunction):
    """Leaves a line in a file when it is closed."""

    def __init__(self, file: str) -> None:
        self.file = file

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key
        if row.key < 0:
            raise ValueError("negative")

    def close(self) -> None:
        with open(self.file, "a") as file:
            file.write(f"{os.getpid()}\n")


@pytest.mark.parametrize("key", [1, -1], ids=["done", "failed"])
def test_closed_after_a_batch(spark: Any, key: int, tmp_path: Path) -> None:
    df = spark.createDataFrame([(key,)], "key long").coalesce(1)
    out = keystate.keyed(df, "key").process(Closes(str(tmp_path / "closed")), "key long")
    if key < 0:
        with pytest.raises(Exception, match="ValueError: negative"):
            out.collect()
    else:
        assert out.collect() == [(1,)]
    closed = (tmp_path / "closed").read_text().split()
    assert closed.pop(0) == str(os.getpid())  # the copy that tells its states
    attempts = 1 if key > 0 else 2
    assert len(closed) == attempts


def test_discovery_opens_a_copy() -> None:
    class Stateful(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.opened = True
            ctx.get_list_state(ListStateDescriptor("l", Stateful.element))

        def process_element(self, row: Any, ctx: Any) -> None:
            pass

        def close(self) -> None:
            del self.opened

    from keystate._worker.calls.function_spec import FunctionSpec, Style
    from pyspark.sql.types import LongType

    Stateful.element = LongType()  # type: ignore[attr-defined]
    function = Stateful()
    states, *_ = discover_states(
        SentFunction.of(FunctionSpec(function, "process_element", Style.PROCESS))
    )
    assert [state.name for state in states] == ["l"]
    assert not hasattr(function, "opened")
