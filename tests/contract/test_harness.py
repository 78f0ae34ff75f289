"""The harness without Spark: micro-batches, clocks, failures, snapshots and subtasks."""

from __future__ import annotations

import dataclasses
import datetime
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import keystate
import numpy as np
import pyarrow.compute as pc
import pytest
from keystate import (
    BYTEWISE,
    DESCENDING,
    NATURAL,
    AsyncKeyedProcessFunction,
    CheckpointError,
    CoFlatMapFunction,
    DeclarationError,
    FilterFunction,
    FlatMapFunction,
    FunctionError,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTypeError,
    ReduceFunction,
    SortedMapStateDescriptor,
    StateAccessError,
    StateTtlConfig,
    StateTypeError,
    TimeDomain,
    ValueStateDescriptor,
)
from keystate._worker.contexts.row_context import RowContext
from keystate.testing import KeyedProcessHarness, KeyedTwoInputHarness, rows_of
from keystate.windows import CountTrigger, GlobalWindows, ProcessWindowFunction, window
from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import types as T

from tests.attributes import Attributes
from tests.contract import test_sorted_map, test_state_model
from tests.zones import in_zone, marked

ROWS = "key string, number long, time timestamp"


class Recorder(KeyedProcessFunction):
    """Adds numbers up, remembers them, sets timers; a negative number is an error."""

    def open(self, ctx: Any) -> None:
        self.place = ctx.get_index_of_this_subtask(), ctx.get_number_of_parallel_subtasks()
        self.total = ctx.get_state(ValueStateDescriptor("total", "n int, sum long"))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "long"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "string", "double"))
        self.sorted = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("sorted", "long", "string", DESCENDING)
        )
        self.open_rows = 0

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.open_rows += 1
        n, total = self.total.value() or (0, 0)
        self.total.update((n + 1, total + row.number))
        self.list.add(row.number)
        self.map[f"m{row.number}"] = row.number / 2
        self.sorted[row.number] = row.key
        if row.number < 0:
            raise ValueError("negative")
        if row.number > 100:
            ctx.timer_service().register_event_time_timer(row.number)
            ctx.timer_service().register_processing_time_timer(10 * row.number)
        yield row.key, total + row.number, self.open_rows, *self.place

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp == 777:
            ctx.timer_service().register_event_time_timer(5)
        domain = ctx.time_domain()
        yield ctx.get_current_key(), timestamp, domain.value, *self.place


RESULTS = "key string, total long, open_rows int, subtask int, parallelism int"


def recorder(**options: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(Recorder(), ROWS, "key", RESULTS, event_time="time", **options)


def at(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000)


def test_runs_without_a_jvm() -> None:
    script = """
from tests.contract import test_harness
harness = test_harness.recorder(parallelism=2)
assert [r[:3] for r in harness.process(("a", 3, None), 1)] == [("a", 3, 1)]
from pyspark import SparkContext
assert SparkContext._active_spark_context is None and SparkContext._gateway is None
"""
    # Of the environment only what make sanitize needs.
    kept = ("LD_PRELOAD", "ASAN_OPTIONS", "PYTHONMALLOC")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["PYTHONPATH"] = ":".join(sys.path)
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_state_lasts_from_batch_to_batch_and_can_be_looked_at() -> None:
    with recorder() as harness:
        assert harness.process(("a", 3, None), 1) == [("a", 3, 1, 0, 1)]
        emitted = harness.process_batch([{"key": "a", "number": 4, "time": at(2)}, ("b", 7, at(2))])
        assert emitted == [("a", 7, 2, 0, 1), ("b", 7, 3, 0, 1)]
        assert emitted[0].total == 7
        assert harness.state("a", "total") == (2, 7)
        assert harness.state("a", "total").sum == 7
        assert harness.state("a", "list") == [3, 4]
        assert harness.state("a", "map") == {"m3": 1.5, "m4": 2.0}
        assert list(harness.state("a", "sorted").items()) == [(4, "a"), (3, "a")]
        assert harness.state("c", "total") is None
        assert harness.state("c", "list") == []
        harness.state("a", "list").append(99)
        assert harness.state("a", "list") == [3, 4]
        assert harness.num_keys == 2
        assert len(harness.output()) == 3
        assert len(harness.take_output()) == 3
        assert harness.output() == []
        with pytest.raises(DeclarationError, match="no state 'x'"):
            harness.state("a", "x")


def test_timers_fire_after_the_rows_in_order_of_time() -> None:
    with recorder() as harness:
        harness.process_batch([("a", 300, at(1)), ("b", 200, at(1)), ("a", 777, at(1))])
        assert harness.timers("b") == [
            (TimeDomain.EVENT_TIME, 200),
            (TimeDomain.PROCESSING_TIME, 2000),
        ]
        emitted = harness.process_batch([("a", 1, at(900)), ("c", 150, at(900))], watermark=300)
        rows, fired = emitted[:2], emitted[2:]
        assert [tuple(r[:2]) for r in rows] == [("a", 1078), ("c", 150)]
        # 150 was set in this batch.
        assert [tuple(r[:2]) for r in fired] == [("c", 150), ("b", 200), ("a", 300)]
        assert harness.advance_watermark(200) == []
        assert harness.watermark == 300
        assert [r.total for r in harness.set_processing_time(3000)] == [1500, 2000, 3000]
        assert [r.total for r in harness.advance_watermark(800)] == [777]
        # 777 has set it, before its own time.
        assert [r.total for r in harness.process_batch([])] == [5]
        assert harness.timers("a") == [(TimeDomain.PROCESSING_TIME, 7770)]
        with pytest.raises(ValueError, match="back"):
            harness.set_processing_time(1)


def test_a_time_of_more_than_64_bits_is_refused() -> None:
    with (
        recorder() as harness,
        pytest.raises(FunctionError, match=r"64 bits, got 11529215046068469760[\s\S]*key 'a', row"),
    ):
        harness.process(("a", 2**60, None))


def test_late_rows_go_by_the_watermark_of_the_batch_before() -> None:
    with recorder() as harness:
        assert harness.process_batch([("a", 1, at(0)), ("b", 1, None)]) == [("b", 1, 1, 0, 1)]
        emitted = harness.process_batch([("a", 2, at(50))], watermark=100)
        assert [r.total for r in emitted] == [2]
        assert harness.process(("a", 3, None), 100) == []
        assert [r.total for r in harness.process(("a", 3, None), 101)] == [5]
        assert harness.num_late_rows == 2


def test_no_watermark_without_event_time() -> None:
    harness = KeyedProcessHarness(Recorder(), ROWS, "key", RESULTS)
    assert harness.watermark is None
    assert len(harness.process(("a", 1, at(0)))) == 1
    for call in (
        lambda: harness.advance_watermark(1),
        lambda: harness.process(("a", 1, None), 5),
        lambda: harness.process(("a", 101, None)),
    ):
        with pytest.raises(DeclarationError):
            call()
    with pytest.raises(DeclarationError, match="event_time"):
        KeyedProcessHarness(Recorder(), ROWS, "key", RESULTS, time_mode="event_time")


def test_a_failed_batch_changes_nothing_and_its_function_is_opened_anew() -> None:
    with recorder(parallelism=3) as harness:
        rows = [(f"k{i}", 5, at(1)) for i in range(20)]
        harness.process_batch(rows)
        before = pickle.dumps(harness.snapshot())
        with pytest.raises(FunctionError, match=r"ValueError: negative[\s\S]*key 'k3', row") as e:
            harness.process_batch([*rows, ("k3", -1, at(1)), ("k4", 500, at(1))], watermark=50)
        assert isinstance(e.value.__context__, ValueError)
        assert pickle.dumps(harness.snapshot()) == before
        assert harness.watermark == 0
        harness.take_output()
        harness.process_batch(rows)
        assert {r.total for r in harness.output()} == {10}
        failed = harness.subtask_of("k3")
        counts = {i: [r.open_rows for r in harness.output() if r.subtask == i] for i in range(3)}
        assert min(counts[failed]) == 1
        assert all(min(counts[i]) > 1 for i in range(3) if i != failed)


@pytest.mark.parametrize("parallelism", [1, 3, 128])
def test_goes_on_from_a_snapshot_with_other_subtasks(parallelism: int) -> None:
    rng = random.Random(7)
    rows = [[(f"k{rng.randrange(40)}", rng.randrange(200), at(1))] for _ in range(60)]
    whole, before = recorder(parallelism=2), recorder(parallelism=2)
    for batch in rows[:30]:
        whole.process_batch(batch)
        before.process_batch(batch)
    snapshot = pickle.loads(pickle.dumps(before.snapshot()))
    before.process(("k0", 150, at(1)))  # after the snapshot: not in it
    after = KeyedProcessHarness.restore(snapshot, Recorder(), parallelism=parallelism)
    for batch in rows[30:]:
        whole.process_batch(batch)
        after.process_batch(batch)
    for key in {key for ((key, *_),) in rows}:
        for name in ("total", "list", "map", "sorted"):
            assert after.state(key, name) == whole.state(key, name)
        assert after.timers(key) == whole.timers(key)
        assert 0 <= after.subtask_of(key) < parallelism
    assert {r[3:] for r in after.output()} <= {(i, parallelism) for i in range(parallelism)}
    assert all(r.subtask == after.subtask_of(r.key) for r in after.output())
    fired = [sorted(h.advance_watermark(10**6)) for h in (whole, after)]
    assert [r[:3] for r in fired[0]] == [r[:3] for r in fired[1]]


class Opened(KeyedProcessFunction):
    log: ClassVar[list[Any]] = []

    def open(self, ctx: Any) -> None:
        self.name = ctx.get_task_name_with_subtasks(), ctx.get_max_number_of_parallel_subtasks()
        if ctx.get_task_name() != "declaration":
            self.log.append(("open", *self.name))

    def process_element(self, row: Any, ctx: Any) -> Any:
        return [row]

    def close(self) -> None:
        if "declaration" not in self.name[0]:
            self.log.append(("close", *self.name))


def test_opens_and_closes_each_subtask_once() -> None:
    harness = KeyedProcessHarness(Opened(), "key int", "key", "key int", parallelism=2, name="op")
    Opened.log.clear()
    with harness:
        harness.process_batch(range(20))
        harness.process_batch(range(20))
    names = [("op (1/2)", 128), ("op (2/2)", 128)]
    assert Opened.log == [("open", *n) for n in names] + [("close", *n) for n in names]
    Opened.log.clear()
    KeyedProcessHarness.restore(harness.snapshot(), Opened(), parallelism=4).open()
    assert [entry[1] for entry in Opened.log] == [f"op ({i}/4)" for i in (1, 2, 3, 4)]


class Keeps(KeyedProcessFunction):
    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor(self.name, self.kind))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.state.update(row.value)
        yield self.state.value()


def test_a_state_of_another_type_is_refused_and_one_not_declared_is_kept() -> None:
    def keeps(name: str, kind: str) -> KeyedProcessHarness:
        return KeyedProcessHarness(Keeps(name, kind), "key int, value long", "key", kind)

    harness = keeps("a", "long")
    harness.process((1, 2))
    with pytest.raises(CheckpointError, match="state 'a' has another value type"):
        KeyedProcessHarness.restore(harness.snapshot(), Keeps("a", "string"))
    other = KeyedProcessHarness.restore(harness.snapshot(), Keeps("b", "double"))
    again = KeyedProcessHarness.restore(other.snapshot(), Keeps("a", "long"))
    assert again.state(1, "a") == 2


class Named(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        pass

    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(row.number)
        return Attributes(what="row")

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return Attributes(what="timer")


def test_a_dict_that_has_every_attribute_is_one_result() -> None:
    with KeyedProcessHarness(Named(), ROWS, "key", "what string") as harness:
        assert harness.process(("a", 5, None)) == [("row",)]
        assert harness.set_processing_time(5) == [("timer",)]


def test_errors_are_those_of_a_query() -> None:
    def run(body: Any, schema: str = "long") -> Any:
        class Body(KeyedProcessFunction):
            def open(self, ctx: Any) -> None:
                self.value = ctx.get_state(ValueStateDescriptor("value", "int"))
                self.list = ctx.get_list_state(ListStateDescriptor("list", "string"))

            def process_element(self, row: Any, ctx: Any) -> Any:
                return body(self)

        return KeyedProcessHarness(Body(), "key long", "key", schema).process(5)

    with pytest.raises(StateTypeError, match="state 'value' of key 5: expected int, got str 'x'"):
        run(lambda f: f.value.update("x"))
    with pytest.raises(StateTypeError, match="state 'list' of key 5: a list can't hold None"):
        run(lambda f: f.list.add(None))
    with pytest.raises(OutputTypeError, match="output schema"):
        run(lambda f: "text")
    with pytest.raises(StateAccessError):
        KeyedProcessHarness(_UsesStateInOpen(), "key long", "key", "long").open()
    with pytest.raises(DeclarationError, match="'no_type' is not a type"):
        run(lambda f: 1, "no_type")
    with pytest.raises(DeclarationError, match="no column 'k'"):
        KeyedProcessHarness(lambda row, ctx: row, "key long", "k", "long")
    with pytest.raises(DeclarationError, match="2 key columns are called 'key'"):
        KeyedProcessHarness(lambda row, ctx: row, "key long", ["key", "`key`"], "long")
    with pytest.raises(DeclarationError, match="parallelism"):
        KeyedProcessHarness(lambda row, ctx: row, "key long", "key", "long", parallelism=129)
    with pytest.raises(TypeError, match="input schema"):
        KeyedProcessHarness(lambda row, ctx: row, "key long", "key", "long").process("text")


@pytest.mark.parametrize(
    ("output", "state", "place"),
    [
        ("a long, b long, a long", "long", "the output schema has"),
        ("s array<struct<a: int, a: int>>", "long", "an element of the output schema, field 's',"),
        ("long", "a long, b long, a long", "state 'state' has"),
        ("long", "map<string, struct<a: int, a: int>>", "a value of state 'state' has"),
        ("long", T.StructType([T.StructField("a", T.LongType())] * 2), "state 'state' has"),
    ],
)
def test_fields_of_one_name_are_refused(output: str, state: Any, place: str) -> None:
    """By names, as rows are taken, both had the value of the last one."""

    class Keeps(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.state = ctx.get_state(ValueStateDescriptor("state", state))

        def process_element(self, row: Any, ctx: Any) -> Any: ...

    with pytest.raises(DeclarationError, match=f"{place}.* 2 columns named 'a'"):
        KeyedProcessHarness(Keeps(), "key long", "key", output).process(5)


class _UsesStateInOpen(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        state = ctx.get_state(ValueStateDescriptor("value", "int"))
        if ctx.get_task_name() != "declaration":
            state.update(1)

    def process_element(self, row: Any, ctx: Any) -> None: ...


class Doubled(MapFunction):
    def map(self, row: Any) -> Any:
        return row.value * 2


class Twice(FlatMapFunction):
    def flat_map(self, row: Any) -> Any:
        return [row.value, row.value]


class Odd(FilterFunction):
    def filter(self, row: Any) -> bool:
        return bool(row.value % 2)


class Sum(ReduceFunction):
    def reduce(self, a: Any, b: Any) -> Any:
        return a.key, a.value + b.value


class Running(KeyedBatchFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", 0))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        grouped = batch.rows.append_column("at", batch.key_of_row).to_struct_array()
        sums = [0] * batch.keys.num_rows
        for row in grouped.to_pylist():
            sums[row["at"]] += row["value"]
        totals = pc.add(self.total.value(), sums)
        self.total.update(totals)
        return {"key": batch.keys.column(0), "total": totals}


@pytest.mark.parametrize(
    ("fn", "schema", "expected"),
    [
        (Doubled(), "long", [(2,), (4,), (6,)]),
        (Twice(), "long", [(1,), (1,), (2,), (2,), (3,), (3,)]),
        (Odd(), "key long, value long", [(1, 1), (2, 3)]),
        (Sum(), "key long, value long", [(1, 1), (1, 3), (2, 3)]),
        (Running(), "key long, total long", [(1, 3), (2, 3)]),
        (lambda row, ctx: ctx.get_current_key(), "key int", [(1,), (1,), (2,)]),
    ],
)  # fmt: skip
def test_functions_of_every_class(fn: Any, schema: str, expected: list[Any]) -> None:
    harness = KeyedProcessHarness(fn, "key long, value long", "key", schema)
    assert harness.process_batch([(1, 1), (1, 2), (2, 3)]) == expected
    if isinstance(fn, Running):
        assert harness.process_batch([(1, 10)]) == [(1, 13)]


class Scratch(KeyedBatchFunction):
    """Has its sums in memory that it uses again for each batch."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long"))
        self.sums = np.zeros(1, np.int64)

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        before = self.total.value()[0].as_py() or 0
        self.sums[0] = before + pc.sum(batch.rows.column("value")).as_py()
        self.total.update(self.sums)
        self.sums[0] = -1
        return {"key": batch.keys.column(0), "total": self.total.value()}


def test_state_of_batches_does_not_share_numpys_memory() -> None:
    harness = KeyedProcessHarness(Scratch(), "key long, value long", "key", "key long, total long")
    assert harness.process_batch([(1, 2), (1, 3)]) == [(1, 5)]
    assert harness.process_batch([(1, 4)]) == [(1, 9)]


def test_states_agree_with_model() -> None:
    rows, expected = test_state_model.operations(random.randrange(10**9), 900, 8)
    harness = KeyedProcessHarness(
        test_state_model.Interpreter(),
        test_state_model.OPERATIONS,
        "key",
        test_state_model.RESULTS,
        parallelism=2,
    )
    emitted: list[Any] = []
    for start in range(0, 900, 150):
        emitted += map(tuple, harness.process_batch(rows[start : start + 150]))
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
        harness = KeyedProcessHarness.restore(
            snapshot, test_state_model.Interpreter(), parallelism=start // 150 + 1
        )
    assert sorted(emitted) == sorted(expected)


@pytest.mark.parametrize("order", [NATURAL, DESCENDING, BYTEWISE])
def test_sorted_maps_agree_with_model(order: Any) -> None:
    rows, expected = test_sorted_map.operations(random.randrange(10**9), 900, 4, order)
    harness = KeyedProcessHarness(
        test_sorted_map.Sorter(order), test_sorted_map.OPERATIONS, "key", test_sorted_map.RESULTS
    )
    for start in range(0, 900, 100):
        harness.process_batch(rows[start : start + 100])
    assert [tuple(r) for r in harness.output()] == expected


def test_state_expires_by_the_watermark() -> None:
    class Kept(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            ttl = StateTtlConfig.new_builder(datetime.timedelta(milliseconds=100))
            ttl.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)
            states = (
                ValueStateDescriptor("value", "long"),
                ListStateDescriptor("list", "long"),
                MapStateDescriptor("map", "long", "long"),
            )
            for state in states:
                state.enable_time_to_live(ttl.build())
            self.value, self.list = ctx.get_state(states[0]), ctx.get_list_state(states[1])
            self.map = ctx.get_map_state(states[2])

        def process_element(self, row: Any, ctx: Any) -> None:
            self.value.update(row.number)
            self.list.add(row.number)
            self.map[row.number] = row.number

    with KeyedProcessHarness(Kept(), ROWS, "key", "x long", event_time="time") as harness:
        harness.process(("a", 1, None), 500)
        harness.process(("a", 2, None), 450)  # a late write does not shorten a life
        names = ("value", "list", "map")
        harness.advance_watermark(549)
        assert [harness.state("a", n) for n in names] == [2, [1, 2], {1: 1, 2: 2}]
        harness.advance_watermark(550)
        assert [harness.state("a", n) for n in names] == [2, [1], {1: 1}]
        assert harness.num_keys == 1
        harness.advance_watermark(600)
        assert [harness.state("a", n) for n in names] == [None, [], {}]
        assert harness.num_keys == 0
    with pytest.raises(DeclarationError, match="there is no watermark"):
        KeyedProcessHarness(Kept(), ROWS, "key", "x long")


@pytest.mark.parametrize("key", [("k", "int"), ("other", "long"), ("text", "string")])
def test_a_snapshot_by_another_key_is_refused(key: tuple[str, str]) -> None:
    class Counting(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

        def process_element(self, row: Any, ctx: Any) -> Any:
            self.count.update(self.count.value() + 1)
            yield (self.count.value(),)

    class Setting(KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(5)

        def on_timer(self, timestamp: int, ctx: Any) -> None: ...

    def operator(function: KeyedProcessFunction, name: str, type_: str) -> Any:
        return keystate.keyed(rows_of(f"{name} {type_}"), name).process(function, "count long")

    for function in Counting(), Setting():
        with KeyedProcessHarness.of(operator(function, "k", "long")) as harness:
            harness.process((1,))
            snapshot = harness.snapshot()
        with pytest.raises(CheckpointError, match="keyed by struct<k:bigint>, but") as raised:
            KeyedProcessHarness.restore(snapshot, operator(function, *key))
        assert raised.value.code == "KEYSTATE_KEY_CHANGED"


def test_key_columns_of_any_names_that_change_places_are_another_key() -> None:
    def counted(*names: str) -> Any:
        rows = rows_of("größe long, `user id` long, `a.b` long")
        return keystate.keyed(rows, *names).reduce(lambda a, b: b)

    with KeyedProcessHarness.of(counted("größe", "user id", "a.b")) as harness:
        harness.process((1, 2, 3))
        snapshot = harness.snapshot()
    KeyedProcessHarness.restore(snapshot, counted("`größe`", "user id", "`a.b`")).close()
    for other in (("user id", "größe", "a.b"), ("größe", "user id"), ("größe", "a.b", "user id")):
        with pytest.raises(CheckpointError, match=r"KEYSTATE_KEY_CHANGED.*größe"):
            KeyedProcessHarness.restore(snapshot, counted(*other))


def test_a_snapshot_is_read_in_another_type() -> None:
    class Typed(KeyedProcessFunction):
        def __init__(self, value_type: str, value: Any) -> None:
            self.value_type, self.value = value_type, value

        def open(self, ctx: Any) -> None:
            self.one = ctx.get_state(ValueStateDescriptor("one", self.value_type))
            self.list = ctx.get_list_state(ListStateDescriptor("list", self.value_type))
            self.map = ctx.get_map_state(MapStateDescriptor("map", "long", self.value_type))

        def process_element(self, row: Any, ctx: Any) -> None:
            self.one.update(self.value)
            self.list.add(self.value)
            self.map[1] = self.value

    harness = KeyedProcessHarness(Typed("n int, gone string", (1, "x")), ROWS, "key", "x long")
    harness.process(("a", 1, None))
    harness.close()
    kept = harness.snapshot()
    restored = KeyedProcessHarness.restore(kept, Typed("added string, n long", (None, 2)))
    expected = (None, 1)
    assert restored.state("a", "one") == expected
    assert restored.state("a", "list") == [expected]
    assert restored.state("a", "map") == {1: expected}
    with pytest.raises(CheckpointError, match="field 'n' of the value was int and can't become"):
        KeyedProcessHarness.restore(kept, Typed("n string", ("x",)))


@dataclasses.dataclass
class Limits:
    low: int
    high: int = 3


@dataclasses.dataclass
class Plan:
    inner: Limits = dataclasses.field(default_factory=lambda: Limits(1, 9))
    listed: list[Limits] = dataclasses.field(default_factory=lambda: [Limits(1, 8)])


_NESTED = "inner struct<low: int, high: int>, listed array<struct<low: int, high: int>>"


@pytest.mark.parametrize(
    ("value_type", "default", "expected"),
    [
        (_NESTED, ((1, 9), [(1, 8)]), ((2, 9), [(5, None)])),
        (_NESTED, (None, None), ((2, None), [(5, None)])),
        (Plan, None, Plan(Limits(2, 9), [Limits(5, 3)])),
        (Plan, Plan(Limits(1, 7)), Plan(Limits(2, 7), [Limits(5, 3)])),
    ],
)
def test_a_field_added_inside_a_struct_has_its_default(
    value_type: Any, default: Any, expected: Any
) -> None:
    """That of the struct in the whole default; elements of a list have that of their class."""

    class Typed(KeyedProcessFunction):
        def __init__(self, value_type: Any, default: Any = None) -> None:
            self.declared = ValueStateDescriptor("one", value_type, default)

        def open(self, ctx: Any) -> None:
            self.one = ctx.get_state(self.declared)

        def process_element(self, row: Any, ctx: Any) -> None:
            self.one.update(((2,), [(5,)]))

    before = "inner struct<low: int>, listed array<struct<low: int>>"
    harness = KeyedProcessHarness(Typed(before), ROWS, "key", "x long")
    harness.process(("a", 1, None))
    harness.close()
    restored = KeyedProcessHarness.restore(harness.snapshot(), Typed(value_type, default))
    assert restored.state("a", "one") == expected


def test_a_close_that_fails_on_the_driver() -> None:
    class Closes(KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> Any:
            yield row

        def close(self) -> None:
            raise RuntimeError("no such connection")

    with pytest.raises(DeclarationError, match=r"close\(\) failed on the driver.*no such conn"):
        KeyedProcessHarness(Closes(), "key long", "key", "key long")


@pytest.mark.parametrize("method", ["open", "close"])
def test_a_state_that_is_used_where_there_is_no_key(method: str) -> None:
    class Early(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.count = ctx.get_state(ValueStateDescriptor("count", "long"))
            if method == "open":
                self.count.value()

        def process_element(self, row: Any, ctx: Any) -> None: ...

        def close(self) -> None:
            if method == "close":
                self.count.value()

    told = rf"{method}\(\) failed on the driver.*state 'count' was used in {method}\(\)"
    with pytest.raises(DeclarationError, match=told):
        KeyedProcessHarness(Early(), "key long", "key", "key long")


class AsksLate(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.get_map_state(MapStateDescriptor("seen", "long", "long"))


class AsksLateAsync(AsyncKeyedProcessFunction):
    async def process_element(self, row: Any, ctx: Any) -> None:
        ctx.get_map_state(MapStateDescriptor("seen", "long", "long"))


class AsksLateInWindows(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> None:
        context.get_map_state(MapStateDescriptor("seen", "long", "long"))


@pytest.mark.parametrize(
    "fn",
    [
        AsksLate(),
        AsksLateAsync(),
        window(GlobalWindows.create()).trigger(CountTrigger.of(1)).process(AsksLateInWindows()),
        lambda row, ctx: ctx.get_map_state(MapStateDescriptor("seen", "long", "long")),
    ],
)
def test_a_state_that_is_asked_for_with_a_row(fn: Any) -> None:
    """The first mistake of who comes from transformWithState."""
    told = r"ctx.get_map_state\(...\) is for open\(self, ctx\).*and use self.state here"
    harness = KeyedProcessHarness(fn, "key long", "key", "key long")
    with harness, pytest.raises(FunctionError, match=told):
        harness.process((1,))
    context = RowContext()
    assert not hasattr(context, "get_state") and not hasattr(context, "anything")
    with pytest.raises(AttributeError, match="no attribute 'anything'"):
        context.anything  # noqa: B018


def test_nobody_reads_what_the_command_writes() -> None:
    read, written = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "keystate", "demo", "--help"]
    # With a buffer, as most have it: argparse itself says nothing of a write that fails.
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(
        command, stdout=written, stderr=subprocess.PIPE, timeout=120, env=buffered
    )
    os.close(written)
    assert done.returncode == 141 and done.stderr == b""


def test_a_long_error_is_cut() -> None:
    class Raises(KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> Any:
            raise ValueError("a" + "b" * 5_000_000 + "c")
            yield row

    with (
        KeyedProcessHarness(Raises(), "key long", "key", "key long") as harness,
        pytest.raises(FunctionError, match=r"characters are left out here") as raised,
    ):
        harness.process((1,))
    text = str(raised.value)
    assert len(text) < 50_000 and "ValueError: ab" in text and "bc\n" in text


class Told(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, ctx.timestamp()


def test_a_row_without_event_time_is_never_late() -> None:
    """As docs/concepts/time.md says."""
    schema = "key string, time timestamp"
    with KeyedProcessHarness(Told(), schema, "key", "key string, ms long", event_time="time") as h:
        h.advance_watermark(10)
        assert h.process_batch([("a", None), ("b", at(5)), ("c", at(20))]) == [
            ("a", None),
            ("c", 20),
        ]
        assert h.num_late_rows == 1


class ToldOfBoth(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield row.key, ctx.timestamp()

    process_element2 = process_element1


class ToldOfElements(KeyedBroadcastProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, ctx.timestamp()

    process_broadcast_element = process_element


#: Two local times that America/New_York has twice and not at all, and one before the epoch.
PLAIN_TIMES = [
    datetime.datetime(2024, 11, 3, 1, 30, 0, 1999),
    datetime.datetime(2024, 3, 10, 2, 30),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500),
]
IN_UTC = [1_730_597_400_001, 1_710_037_800_000, -1]


def test_a_time_without_a_zone_counts_as_utc() -> None:
    """Wherever the process is: so Spark's watermark has it. An instant is none of its business.

    A query has such a column if it is cast after ``withWatermark``.
    """
    plain, out = marked("key string, time timestamp_ntz", "time"), "key string, ms long"
    rows = [("a", time) for time in PLAIN_TIMES]
    with in_zone("America/New_York"):
        with KeyedProcessHarness(Told(), plain, "key", out) as one:
            assert [row.ms for row in one.process_batch(rows[:2])] == IN_UTC[:2]
            assert one.process(("a", None), timestamp=77)[0].ms == 77
            assert one.process(("a", None))[0].ms is None
        instants = marked("key string, time timestamp", "time")
        for schemas in ((plain, instants), (instants, plain)):
            with KeyedTwoInputHarness(
                ToldOfBoth(), schemas[0], "key", schemas[1], "key", out
            ) as two:
                assert two.process1(("a", None), timestamp=5_000)[0].ms == 5_000
                assert two.process2(("a", None), timestamp=6_000)[0].ms == 6_000
        state = MapStateDescriptor("state", "long", "long")
        made = keystate.keyed(rows_of(instants), "key").connect(
            keystate.broadcast(rows_of(plain), state)
        )
        with KeyedProcessHarness.of(made.process(ToldOfElements(), out)) as connected:
            emitted = connected.process_batch([], broadcast=rows)
            assert [row.ms for row in emitted] == IN_UTC


def test_the_end_of_a_window_without_a_zone_counts_as_utc() -> None:
    schema = marked("key string, win struct<start: timestamp_ntz, end: timestamp_ntz>", "win")
    with (
        in_zone("Europe/Berlin"),
        KeyedProcessHarness(Told(), schema, "key", "key string, ms long") as one,
    ):
        start, end = PLAIN_TIMES[1], PLAIN_TIMES[0]
        assert one.process(("a", (start, end)))[0].ms == IN_UTC[0]


#: What is an event time, and what is none.
EVENT_TIMES = ["timestamp", "struct<start: timestamp, end: timestamp>"]
NO_EVENT_TIMES = [
    "timestamp_ntz", "string", "long", "date", "struct<start: timestamp_ntz, end: timestamp_ntz>",
    "struct<time: timestamp>",
]  # fmt: skip


def test_a_watermark_is_of_an_instant() -> None:
    for kind in EVENT_TIMES:
        assert rows_of(f"key string, time {kind}", event_time="time").schema["time"].metadata
    for kind in NO_EVENT_TIMES:
        rows = rows_of(f"key string, time {kind}")
        with pytest.raises(AnalysisException, match=r"event time `time` has the invalid type"):
            rows.withWatermark("time", "1 minute")
        with pytest.raises(AnalysisException, match="EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"):
            KeyedProcessHarness(Told(), rows.schema, "key", "ms long", event_time="time")


@pytest.mark.parametrize("kind", [*EVENT_TIMES, *NO_EVENT_TIMES])
def test_a_query_takes_the_same_event_times(spark: Any, tmp_path: Path, kind: str) -> None:
    schema = f"key string, time {kind}"

    def refusal(df: Any) -> Any:
        try:
            _ = df.withWatermark("time", "1 minute").schema  # where a client has it analysed
        except AnalysisException as e:
            return e.getCondition(), str(e).partition(";")[0].partition(" SQLSTATE")[0]
        return None

    found = refusal(rows_of(schema))
    assert found == refusal(spark.readStream.schema(schema).parquet(str(tmp_path)))
    assert (found is None) == (kind in EVENT_TIMES)
    for batch in (rows_of(schema, []), spark.createDataFrame([], schema)):
        assert refusal(batch) is None


@pytest.mark.parametrize("kind", [object, dict])
def test_an_object_as_a_state_is_told_how_it_can_be_kept(kind: Any) -> None:
    class Kept(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.kept = ctx.get_state(ValueStateDescriptor("kept", kind))

        def process_element(self, row: Any, ctx: Any) -> None: ...

    with pytest.raises(DeclarationError, match=r"state 'kept': .* as bytes, in 'binary'"):
        KeyedProcessHarness(Kept(), "key string", "key", "n long")


def test_a_harness_takes_the_operator_of_a_query() -> None:
    rows = rows_of(ROWS).withWatermark("time", "1 hour")
    operator = keystate.keyed(rows, rows.key, order_by="number", max_parallelism=4).process(
        Recorder(), RESULTS, name="mine"
    )
    with KeyedProcessHarness.of(operator, parallelism=4) as harness:
        emitted = harness.process_batch([("a", 7, at(1)), ("a", 3, at(1))])
        assert [row.total for row in emitted] == [3, 10]
        assert harness.watermark == 0
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
    with KeyedProcessHarness.restore(snapshot, operator, parallelism=2) as harness:
        assert harness.process(("a", 1, None), 1)[0].total == 11
    with pytest.raises(DeclarationError, match="parallelism must be 1 to max_parallelism"):
        KeyedProcessHarness.of(operator, parallelism=5)
    sink = keystate.stream(rows).add_sink(lambda row, ctx: None)
    assert KeyedProcessHarness.of(sink).process(("a", 7, at(1))) == []


def test_what_is_no_operator_for_a_harness() -> None:
    def fn(row: Any, ctx: Any) -> Any:
        return row.number

    rows, table = rows_of(ROWS), rows_of(ROWS, [("a", 1, at(1))])
    stream = keystate.keyed(rows, "key")
    chained = keystate.keyed(stream.process(fn, "number long"), "number")
    connected = stream.connect(keystate.keyed(rows, "key"))
    joined = connected.flat_map(OneAndTwo(), "number long")
    for made, message in (
        (rows, "a harness is made of what a stream makes of a function"),
        (chained.process(fn, "n long"), "test operators that follow each other one by one"),
        (keystate.keyed(table, "key").process(fn, "number long"), "leave out the batch"),
        (joined, "use KeyedTwoInputHarness"),
    ):
        with pytest.raises(DeclarationError, match=message):
            KeyedProcessHarness.of(made)
    with pytest.raises(DeclarationError, match="use KeyedProcessHarness"):
        KeyedTwoInputHarness.of(stream.process(fn, "number long"))
    with pytest.raises(DeclarationError, match="takes a column by its name"):
        rows.select(Expression())


class Expression(Column):
    """A column that needs no session."""

    def __new__(cls) -> Expression:
        return object.__new__(cls)

    def __init__(self) -> None: ...

    def __repr__(self) -> str:
        return "Column<'key'>"


class OneAndTwo(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return []

    def flat_map2(self, value: Any) -> Any:
        return []
