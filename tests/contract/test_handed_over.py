"""What a function hands over is a value: what it does to the object afterwards changes nothing.

Each case is run once with one row a micro-batch, and once with all of them in one. Plain Python
tells what the results are: every call of the function as if its values were written down at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import keystate
import numpy as np
import pytest
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    AsyncKeyedProcessFunction,
    FixedDelayRetryStrategy,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    OutputTypeError,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateTypeError,
    ValueStateDescriptor,
)
from keystate.testing import KeyedProcessHarness, rows_of

SCHEMA = "key string, x long"
LISTS = "key string, xs array<long>"
KEYS = "abaabb"
ROWS = [(key, x) for x, key in enumerate(KEYS)]

#: What the histories of the keys are after each row.
HISTORY = [
    (key, [x for x, other in enumerate(KEYS[: i + 1]) if other == key])
    for i, key in enumerate(KEYS)
]
#: Each row's number alone.
ALONE = [(key, [x]) for key, x in ROWS]


@dataclasses.dataclass
class Pair:
    n: int
    xs: list[int]


class WithState(KeyedProcessFunction):
    """A function of a row and a state, made of two lambdas."""

    def __init__(self, get: Callable[[Any], Any], call: Callable[[Any, Any], Any]) -> None:
        self._get, self._call = get, call

    def open(self, ctx: Any) -> None:
        self.s = self._get(ctx)
        self.scratch: list[int] = []

    def process_element(self, row: Any, ctx: Any) -> Any:
        return self._call(self, row)


def value(kind: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda ctx: ctx.get_state(ValueStateDescriptor("s", kind, **options))


class Appending(AggregateFunction):
    """The accumulator is the result."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        return a


def emits_what_is_read(fn: Any, row: Any) -> Iterator[Any]:
    xs = fn.s.value()
    xs.append(row.x)
    fn.s.update(xs)
    yield row.key, fn.s.value()


def changes_after_update(fn: Any, row: Any) -> Iterator[Any]:
    xs = [*fn.s.value(), row.x]
    fn.s.update(xs)
    xs.append(99)
    yield row.key, fn.s.value()


def changes_what_it_read(fn: Any, row: Any) -> Iterator[Any]:
    fn.s.update([*fn.s.value(), row.x])
    fn.s.value().append(99)
    yield row.key, fn.s.value()


def changes_what_it_yielded(fn: Any, row: Any) -> Iterator[Any]:
    xs = [*fn.s.value(), row.x]
    fn.s.update(xs)
    yield row.key, xs
    xs.append(99)


def scratch_in_a_tuple(fn: Any, row: Any) -> Iterator[Any]:
    """The list is filled anew for each row; the state must have the one of its key's last row."""
    before = fn.s.value()
    fn.scratch.clear()
    fn.scratch.extend([*(before.xs if before else []), row.x])
    fn.s.update((row.x, fn.scratch))
    yield row.key, fn.s.value().xs


def scratch_bytes(fn: Any, row: Any) -> Iterator[Any]:
    before = fn.s.value()
    scratch = bytearray(before.b if before else b"")
    scratch.append(row.x)
    fn.s.update((row.x, scratch))
    scratch.append(99)
    yield row.key, list(fn.s.value().b)


def a_dataclass(fn: Any, row: Any) -> Iterator[Any]:
    pair = fn.s.value() or Pair(0, [])
    pair.xs.append(row.x)
    fn.s.update(pair)
    pair.xs.append(99)
    fn.s.value().xs.append(98)
    yield row.key, fn.s.value().xs


def one_dict_yielded_again(fn: Any, row: Any) -> Iterator[Any]:
    result = {"key": row.key, "xs": [-1]}
    yield result
    result["xs"] = fn.scratch
    fn.scratch[:] = [row.x]
    yield result


def adds_to_a_list(fn: Any, row: Any) -> Iterator[Any]:
    fn.scratch[:] = [row.x]
    fn.s.add(fn.scratch)
    fn.s.get()[-1].append(99)
    yield row.key, [x for xs in fn.s.get() for x in xs]


def adds_all_of_a_generator(fn: Any, row: Any) -> Iterator[Any]:
    def refilled() -> Iterator[Any]:
        for x in (row.x, -row.x):
            fn.scratch[:] = [x]
            yield x, fn.scratch

    fn.s.update([])
    fn.s.add_all(refilled())
    yield row.key, [x for each in fn.s.get() for x in each.xs]


def puts_into_a_map(fn: Any, row: Any) -> Iterator[Any]:
    fn.scratch[:] = [*(fn.s.get("a") or []), row.x]
    fn.s.put("a", fn.scratch)
    fn.s.get("a").append(99)
    for _, each in fn.s.items():
        each.append(98)
    for each in fn.s.values():
        each.append(97)
    yield row.key, fn.s.get("a")


def puts_into_a_sorted_map(fn: Any, row: Any) -> Iterator[Any]:
    first = fn.s.first_entry()
    fn.scratch[:] = [*(first[1] if first else []), row.x]
    fn.s.put(1, fn.scratch)
    for each in (fn.s.first_entry(), fn.s.last_entry(), fn.s.floor_entry(5)):
        each[1].append(99)
    for _, each in [*fn.s.sub_iterator(None, None), *fn.s.items()]:
        each.append(98)
    yield row.key, fn.s.get(1)


def aggregates(fn: Any, row: Any) -> Iterator[Any]:
    fn.s.add(row.x)
    before = fn.s.get()
    fn.s.get().append(99)
    yield row.key, before
    before.append(98)


def reduces(fn: Any, row: Any) -> Iterator[Any]:
    fn.scratch[:] = [row.x]
    fn.s.add(fn.scratch)
    fn.s.get().append(99)
    yield row.key, fn.s.get()


def extended(a: list[int], b: list[int]) -> list[int]:
    a.extend(b)
    return a


def changes_the_default(fn: Any, row: Any) -> Iterator[Any]:
    xs = fn.s.value()
    xs.append(row.x)
    yield row.key, [*fn.s.value(), row.x]


def a_matrix(fn: Any, row: Any) -> Iterator[Any]:
    """NumPy's arrays are taken as lists."""
    before = fn.s.value()
    scratch = np.array([*(before or []), row.x])
    fn.s.update(scratch)
    scratch[:] = 99
    result = np.array(fn.s.value())
    yield row.key, result
    result[:] = 98


def list_of(kind: Any) -> Callable[[Any], Any]:
    return lambda ctx: ctx.get_list_state(ListStateDescriptor("s", kind))


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any], list[Any]]] = {
    "value": (value("array<long>", default=[]), emits_what_is_read, HISTORY),
    "after update": (value("array<long>", default=[]), changes_after_update, HISTORY),
    "read": (value("array<long>", default=[]), changes_what_it_read, HISTORY),
    "yielded": (value("array<long>", default=[]), changes_what_it_yielded, HISTORY),
    "tuple": (value("n long, xs array<long>"), scratch_in_a_tuple, HISTORY),
    "bytearray": (value("n long, b binary"), scratch_bytes, HISTORY),
    "dataclass": (value(Pair), a_dataclass, HISTORY),
    "default": (value("array<long>", default=[]), changes_the_default, ALONE),
    "one dict": (
        value("long"),
        one_dict_yielded_again,
        [each for key, xs in ALONE for each in ((key, [-1]), (key, xs))],
    ),
    "list": (list_of("array<long>"), adds_to_a_list, HISTORY),
    "generator": (
        list_of("n long, xs array<long>"),
        adds_all_of_a_generator,
        [(key, [x, -x]) for key, x in ROWS],
    ),
    "map": (
        lambda ctx: ctx.get_map_state(MapStateDescriptor("s", "string", "array<long>")),
        puts_into_a_map,
        HISTORY,
    ),
    "sorted map": (
        lambda ctx: ctx.get_sorted_map_state(SortedMapStateDescriptor("s", "long", "array<long>")),
        puts_into_a_sorted_map,
        HISTORY,
    ),
    "aggregating": (
        lambda ctx: ctx.get_aggregating_state(
            AggregatingStateDescriptor("s", Appending(), "array<long>")
        ),
        aggregates,
        HISTORY,
    ),
    "reducing": (
        lambda ctx: ctx.get_reducing_state(ReducingStateDescriptor("s", extended, "array<long>")),
        reduces,
        HISTORY,
    ),
    "NumPy": (value("array<long>"), a_matrix, HISTORY),
}


def run(fn: Any, out: str, at_a_time: int, **options: Any) -> list[Any]:
    with KeyedProcessHarness(fn, SCHEMA, "key", out, **options) as harness:
        for at in range(0, len(ROWS), at_a_time):
            harness.process_batch(ROWS[at : at + at_a_time])
        return [tuple(row) for row in harness.output()]


AT_A_TIME = pytest.mark.parametrize("at_a_time", [1, 2, len(ROWS)])


@AT_A_TIME
@pytest.mark.parametrize("case", CASES)
def test_states(case: str, at_a_time: int) -> None:
    get, call, expected = CASES[case]
    results = run(WithState(get, call), LISTS, at_a_time)
    # A micro-batch's rows come key by key.
    assert sorted(results, key=repr) == sorted(expected, key=repr)


@AT_A_TIME
def test_side_outputs(at_a_time: int) -> None:
    tag = OutputTag("side", "xs array<long>")

    def call(fn: Any, row: Any) -> Iterator[Any]:
        fn.scratch[:] = [row.x]
        yield tag, {"xs": fn.scratch}
        yield tag, (fn.scratch,)
        fn.scratch[:] = [99]
        yield row.key, fn.scratch

    with KeyedProcessHarness(
        WithState(value("long"), call), SCHEMA, "key", LISTS, side_outputs=[tag]
    ) as harness:
        for at in range(0, len(ROWS), at_a_time):
            harness.process_batch(ROWS[at : at + at_a_time])
        side = sorted(row.xs[0] for row in harness.side_output(tag))
        assert side == sorted(2 * list(range(len(ROWS))))
        assert sorted(row.xs[0] for row in harness.output()) == [99] * len(ROWS)


class Later(AsyncKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.s = ctx.get_state(ValueStateDescriptor("s", "array<long>", default=[]))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        xs = self.s.value()
        xs.append(row.x)
        self.s.update(xs)
        yield row.key, xs
        await asyncio.sleep(0)
        xs.append(99)


@AT_A_TIME
def test_async_functions(at_a_time: int) -> None:
    assert sorted(run(Later(), LISTS, at_a_time)) == sorted(HISTORY)


SEEN: list[Any] = []


def look(results: list[Any]) -> bool:
    SEEN.extend(results)
    return False


def test_a_retry_strategy_sees_what_was_emitted() -> None:
    SEEN.clear()

    class Emitting(AsyncKeyedProcessFunction):
        async def process_element(self, row: Any, ctx: Any) -> Any:
            return {"key": row.key, "xs": [row.x]}

    retry = FixedDelayRetryStrategy(1, 0, result_predicate=look)
    run(Emitting(), LISTS, 1, retry=retry)
    assert [{"key": key, "xs": [x]} for key, x in ROWS] == SEEN


@AT_A_TIME
def test_a_key_is_handed_out_as_a_copy(at_a_time: int) -> None:
    class Keys(KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> Any:
            key = ctx.get_current_key()
            yield (key,)
            key.append(99)

    with KeyedProcessHarness(Keys(), "key array<long>, x long", "key", "k array<long>") as harness:
        rows = [([1], x) for x in range(4)]
        for at in range(0, 4, at_a_time):
            harness.process_batch(rows[at : at + at_a_time])
        assert [row.k for row in harness.output()] == [[1]] * 4


# -- errors come where a value is handed over, and say of which row --------------------------------


def of_row(call: Callable[[Any, Any], Any], kind: str = "long", out: str = LISTS) -> str:
    with pytest.raises((OutputTypeError, StateTypeError)) as e:
        run(WithState(value(kind), call), out, len(ROWS))
    return str(e.value)


def test_a_result_that_does_not_fit_names_key_and_row() -> None:
    message = of_row(lambda fn, row: [(row.key, [str(row.x)])])
    assert "key 'a'" in message and "x=0" in message and "expected bigint" in message


@pytest.mark.parametrize("kind", ["string", "decimal(5,2)", "timestamp_ntz", "long"])
def test_whatever_does_not_fit(kind: str) -> None:
    wrong = {
        "string": "\ud800",
        "decimal(5,2)": Decimal("1000"),
        "timestamp_ntz": datetime.datetime.now(datetime.timezone.utc),
        "long": 2**70,
    }[kind]
    message = of_row(lambda fn, row: [(wrong,)], out=f"v {kind}")
    assert "key 'a'" in message and "x=0" in message


@pytest.mark.parametrize("wrong", [2**70, "\ud800"])
def test_a_value_that_does_not_fit_is_an_error_of_its_row(wrong: Any) -> None:
    def call(fn: Any, row: Any) -> None:
        if row.x == 3:
            fn.s.update(wrong)

    kind = "long" if isinstance(wrong, int) else "string"
    message = of_row(call, kind)
    assert "state 's' of key 'a'" in message


class Started(KeyedProcessFunction):
    """Begins with initial state, of which it keeps the object."""

    def open(self, ctx: Any) -> None:
        self.s = ctx.get_state(ValueStateDescriptor("s", "n long, xs array<long>"))
        self.scratch: list[int] = []

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.scratch[:] = [row.x]
        self.s.update((row.x, self.scratch))

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, self.s.value().xs


def test_initial_state_is_kept_in_a_snapshot_before_the_first_rows() -> None:
    initial = rows_of(SCHEMA, [("a", 7), ("b", 8)])
    rows = keystate.keyed(rows_of(SCHEMA), "key")
    operator = rows.process(Started(), LISTS, initial_state=initial)
    before = KeyedProcessHarness.of(operator)
    for snapshot in (before.snapshot(), pickle.loads(pickle.dumps(before.snapshot()))):
        with KeyedProcessHarness.restore(snapshot, operator, parallelism=2) as harness:
            harness.process_batch([("a", 1), ("b", 2)])
            assert sorted(harness.output()) == [("a", [7]), ("b", [8])]
            again = harness.snapshot()
    with KeyedProcessHarness.restore(again, operator) as harness:
        assert harness.process_batch([("a", 3)]) == [("a", [7])]
