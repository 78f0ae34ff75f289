"""Rows that a function fails on: all is as if they never were, except for their dead letters."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import keystate
import numpy as np
import pytest
from keystate import (
    CheckpointedFunction,
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
    OutputTag,
    ReduceFunction,
    TimeDomain,
    ValueStateDescriptor,
)
from keystate._compiled import NATIVE, plain
from keystate._worker.calls import guarded, row_loops
from keystate.testing import KeyedProcessHarness, KeyedTwoInputHarness, rows_of
from keystate.windows import window

from tests.failing import INPUT, OUTPUT, SIDE, Random, batches_of
from tests.failing_operators import EVICTING, WINDOWS, AsyncRandom, Sums, Windowed

DEAD = OutputTag("dead", keystate.dead_letter_schema(INPUT))


@pytest.fixture(params=["native", "plain"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is compiled, and in Python."""
    if request.param == "plain":
        monkeypatch.setattr(guarded, "Marks", plain.Marks)
        monkeypatch.setattr(guarded, "collect", plain.collect)
        loops = {
            row_loops.call_with_context: plain.call_with_context,
            row_loops.call_with_row: plain.call_with_row,
        }
        changed = {style: loops.get(loop, loop) for style, loop in row_loops.LOOPS.items()}
        for style, loop in changed.items():
            monkeypatch.setitem(row_loops.LOOPS, style, loop)
    elif NATIVE is None:
        pytest.skip("nothing is compiled")


def _harness(cls: Any, seed: int, parallelism: int, skips: bool) -> KeyedProcessHarness:
    policy = "fail" if skips else keystate.dead_letters(DEAD)
    return KeyedProcessHarness(
        cls(seed, skips),
        INPUT,
        "k",
        OUTPUT,
        event_time="at",
        parallelism=parallelism,
        side_outputs=[SIDE, DEAD],
        on_error=policy,
    )


def _seen(harness: KeyedProcessHarness) -> Any:
    held = harness.snapshot()
    states = {}
    for name, (_, keys, columns, times) in held.states.items():
        cells = zip(*(column.to_pylist() for column in columns.values()))
        each = zip(map(repr, keys.to_pylist()), cells, times or [None] * len(keys))
        states[name] = {key: _entries(cell, time) for key, cell, time in each}
    return states, [harness.timers(key) for key in "ab"], harness.side_output(SIDE)


def _entries(cell: tuple[Any, ...], times: Any) -> Any:
    """A cell with its times; the entries of a map are in no order."""
    if len(cell) == 1:
        return repr(cell), times
    return sorted(zip(map(repr, cell[0]), cell[1], times or [None] * len(cell[0])))


@pytest.mark.parametrize("seed", range(100 if os.environ.get("SLOW") else 15))
def test_fails_as_if_the_rows_never_were(either: None, seed: int) -> None:
    _compare(Random, seed)


@pytest.mark.parametrize("seed", range(100 if os.environ.get("SLOW") else 5))
def test_async_calls_fail_as_if_their_rows_never_were(seed: int) -> None:
    _compare(lambda seed, skips: AsyncRandom(Random(seed, skips)), seed)


def _compare(cls: Any, seed: int) -> None:
    rng = random.Random(seed)
    batches, parallelism, cut = batches_of(rng), rng.randrange(1, 3), rng.randrange(4)
    with_letters, without = (_harness(cls, seed, parallelism, skips) for skips in (False, True))
    watermark = 0
    for i, batch in enumerate(batches):
        if i == cut:
            with_letters, without = (
                KeyedProcessHarness.restore(each.snapshot(), cls(seed, skips), parallelism=2)
                for each, skips in ((with_letters, False), (without, True))
            )
        watermark += rng.randrange(40)
        told = {"watermark": watermark, "processing_time": watermark}
        before = len(with_letters.side_output(DEAD))
        emitted = [each.process_batch(batch, **told) for each in (with_letters, without)]
        letters = with_letters.side_output(DEAD)[before:]
        assert emitted[0] == emitted[1]
        assert _seen(with_letters) == _seen(without)
        failed = [tuple(letter.row) for letter in letters if letter.row is not None]
        late = [row for row in batch if row not in failed and row[3]]
        assert sorted(failed) == sorted(row for row in batch if row[3] and row not in late)
    assert without.side_output(DEAD) == []


@pytest.mark.parametrize("aggregates", [True, False])
@pytest.mark.parametrize("name", [*WINDOWS, *EVICTING])
def test_windows(name: str, aggregates: bool) -> None:
    """Rows that fail are in no window, and windows that fail emit nothing but a letter."""
    evicts = name in EVICTING  # then rows are added up when the window fires

    def made(skips: bool) -> KeyedProcessHarness:
        windows = (WINDOWS | EVICTING)[name](window)
        fn = Windowed(skips, own_states="sessions" not in name)
        rows = (
            windows.aggregate(Sums(skips), "array<long>", fn) if aggregates else windows.process(fn)
        )
        policy = "fail" if skips else keystate.dead_letters(DEAD)
        return KeyedProcessHarness(
            rows,
            INPUT,
            "k",
            OUTPUT,
            event_time="at",
            side_outputs=[SIDE, DEAD],
            on_error=policy,
        )

    letters = []
    for seed in range(8):
        rng, watermark = random.Random(seed), 0
        both = made(False), made(True)
        for batch in batches_of(rng):
            watermark += rng.randrange(30)
            fine = [row for row in batch if not row[3]]
            rows = batch if aggregates and not evicts else fine
            mine = both[0].process_batch(rows, watermark=watermark)
            assert mine == both[1].process_batch(fine, watermark=watermark)
            assert _seen(both[0]) == _seen(both[1])
        letters += both[0].side_output(DEAD)
    assert {letter.timer is None for letter in letters} >= {False}
    assert any(letter.row for letter in letters) == (aggregates and not evicts)


ROW = "k string, v int"
OF_ROW = OutputTag("dead", keystate.dead_letter_schema(ROW))
AS_JSON = OutputTag("dead", keystate.dead_letter_schema())


def _check(v: int) -> int:
    if v < 0:
        raise ValueError(f"{v} is negative")
    return v


class Flat(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        yield value.k, value.v
        yield value.k, _check(value.v)


class Mapped(MapFunction):
    def map(self, value: Any) -> Any:
        return value.k, _check(value.v)


class Kept(FilterFunction):
    def filter(self, value: Any) -> bool:
        return _check(value.v) > 1


class Greatest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2, key=lambda row: _check(row.v))


def _fails(value: Any, ctx: Any) -> Any:
    return [(value.k, _check(value.v))]


@pytest.mark.parametrize("keys", ["k", ()], ids=["keyed", "without keys"])
@pytest.mark.parametrize("fn", [Flat(), Mapped(), Kept(), _fails], ids=lambda fn: str(type(fn)))
def test_functions_of_rows(either: None, fn: Any, keys: Any) -> None:
    output = None if isinstance(fn, FilterFunction) else ROW
    with KeyedProcessHarness(
        fn, ROW, keys, output, side_outputs=[AS_JSON], on_error=keystate.dead_letters(AS_JSON)
    ) as harness:
        each = 2 if isinstance(fn, Flat) else 1
        rows = [("a", 2), ("a", -1), ("b", 3), ("b", -2), ("a", -3), ("a", 4)]
        assert len(harness.process_batch(rows)) == 3 * each
        letters = harness.side_output(AS_JSON)
    assert [json.loads(letter.row)["v"] for letter in letters] == [-1, -2, -3]
    key = ['"a"', '"b"', '"a"'] if keys else [None] * 3
    assert [letter.key for letter in letters] == key
    assert {letter.error for letter in letters} == {"ValueError"}
    assert letters[0].message == "-1 is negative"
    assert letters[0].traceback.startswith("Traceback")
    assert "keystate" not in letters[0].traceback.split("File")[1].split(",")[0].split("/")[-1]


def test_reduce() -> None:
    stream = keystate.keyed(rows_of(ROW), "k")
    made = stream.reduce(Greatest(), on_error=keystate.dead_letters(OF_ROW))
    with KeyedProcessHarness.of(made, side_outputs=[OF_ROW]) as harness:
        rows = [("a", 1), ("a", -5), ("a", 3), ("a", 2)]
        assert harness.process_batch(rows) == [("a", 1), ("a", 3), ("a", 3)]
        assert [tuple(letter.row) for letter in harness.side_output(OF_ROW)] == [("a", -5)]


class Both(KeyedCoProcessFunction):
    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long", default=0))

    def _add(self, v: int) -> Any:
        self.sum.update(self.sum.value() + v)
        yield self.sum.value()
        _check(v)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self._add(value.v)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self._add(10 * value.w)


@pytest.mark.parametrize("ordered", [True, False])
def test_async_functions(ordered: bool) -> None:
    async def checked(row: Any, ctx: Any) -> Any:
        await asyncio.sleep(0.001 * (row.v % 3))
        if row.v == 7:
            await asyncio.sleep(600)
        return row.k, _check(row.v)

    with KeyedProcessHarness(
        checked,
        ROW,
        "k",
        ROW,
        side_outputs=[OF_ROW],
        on_error=keystate.dead_letters(OF_ROW, max_in_a_row=3),
        ordered=ordered,
        timeout=timedelta(seconds=1),
    ) as harness:
        rows = [*((k, v) for v in (-1, 2, -3, 4) for k in "abc"), ("a", 7), ("b", 1)]
        emitted = harness.process_batch(rows)
        assert sorted(emitted) == sorted(row for row in rows if row[1] > 0 and row[1] != 7)
        letters = harness.side_output(OF_ROW)
        failed = [tuple(letter.row) for letter in letters]
        assert failed == [row for row in rows if row[1] < 0 or row[1] == 7]
        assert "Timeout" in letters[-1].error
        with pytest.raises(FunctionError, match="max_in_a_row=3"):
            harness.process_batch([("a", -1), ("b", -2), ("a", -3), ("c", -1)])


@pytest.mark.parametrize("ordered_by", [None, ("v", "at")])
def test_two_inputs(either: None, ordered_by: Any) -> None:
    with KeyedTwoInputHarness(
        Both(),
        ROW,
        "k",
        "k string, at int, w int",
        "k",
        "n long",
        side_outputs=[AS_JSON],
        ordered_by=ordered_by,
        on_error=keystate.dead_letters(AS_JSON),
    ) as harness:
        harness.process_batch([("a", -1), ("a", 2), ("a", 4)], [("a", 3, -1), ("a", 5, 2)])
        assert harness.state("a", "sum") == 26
        letters = harness.side_output(AS_JSON)
    found = sorted((letter.input, json.loads(letter.row)) for letter in letters)
    assert found == [(1, {"k": "a", "v": -1}), (2, {"k": "a", "at": 3, "w": -1})]


def test_letters_are_json_of_all_types() -> None:
    schema = (
        "at timestamp, local timestamp_ntz, day date, bytes binary, price decimal(5,2), "
        "words array<string>, of map<string,timestamp>, part struct<x:int,y:timestamp>, "
        "d double"
    )
    time = datetime.datetime(2024, 5, 6, 7, 8, 9, 10)

    def fail(row: Any, ctx: Any) -> Any:
        row.words.append("changed")
        raise KeyError(row.d)

    with KeyedProcessHarness(
        fail,
        schema,
        "at",
        "n long",
        side_outputs=[AS_JSON],
        on_error=keystate.dead_letters(AS_JSON),
    ) as harness:
        row = (time, time, time.date(), b"ab", 1, ["x"], {"t": time}, (1, time), float("nan"))
        harness.process(row)
        (letter,) = harness.side_output(AS_JSON)
    utc = time.astimezone(datetime.timezone.utc).isoformat()
    assert json.loads(letter.row) == {
        "at": utc,
        "local": "2024-05-06T07:08:09.000010",
        "day": "2024-05-06",
        "bytes": "YWI=",
        "price": "1.00",
        "words": ["x"],
        "of": {"t": utc},
        "part": {"x": 1, "y": utc},
        "d": "NaN",
    }


@dataclass
class Trade:
    k: str
    v: int


def test_a_row_is_as_it_came() -> None:
    """Whatever the function made of the object that it was given."""

    def fail(trade: Trade, ctx: Any) -> Any:
        trade.v = 0
        raise ValueError(trade.k)

    stream = keystate.keyed(rows_of(ROW), "k", row_type=Trade)
    made = stream.process(fail, "n long", on_error=keystate.dead_letters(OF_ROW))
    with KeyedProcessHarness.of(made, side_outputs=[OF_ROW]) as harness:
        harness.process(("a", 5))
        assert [tuple(letter.row) for letter in harness.side_output(OF_ROW)] == [("a", 5)]


def test_ids_are_the_same_in_another_order_and_with_other_subtasks() -> None:
    """So a micro-batch that is run again, perhaps in another process, gives the same letters."""

    def letters(rows: list[Any], parallelism: int = 1) -> list[Any]:
        with _limited(parallelism=parallelism) as harness:
            harness.process_batch(rows)
            return [(tuple(letter.row), letter.id) for letter in harness.side_output(OF_ROW)]

    rows = [("a", -1), ("b", -1), ("a", -2), ("b", 1), ("a", -1)]
    found = letters(rows)
    assert sorted(found) == sorted(letters(rows[::-1])) == sorted(letters(rows[2:] + rows[:2]))
    assert len({number for _, number in found}) == 4
    for parallelism in (2, 3, 7):
        assert sorted(found) == sorted(letters(rows, parallelism))
    assert dict(found)["a", -2] == "0-52b5f4d5c61d22a3-1"


def test_timers_that_fail_are_gone() -> None:
    class Timed(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.n = ctx.get_state(ValueStateDescriptor("n", "long", default=0))

        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(value.v)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            self.n.update(self.n.value() + 1)
            ctx.timer_service().register_processing_time_timer(timestamp + 10)
            yield "k", 1
            if timestamp == 2:
                raise ValueError("two")

    with KeyedProcessHarness(
        Timed(), ROW, "k", ROW, side_outputs=[OF_ROW], on_error=keystate.dead_letters(OF_ROW)
    ) as harness:
        harness.process_batch([("a", 1), ("a", 2), ("a", 3)])
        assert len(harness.set_processing_time(5)) == 2
        assert harness.state("a", "n") == 2
        processing = TimeDomain.PROCESSING_TIME
        assert harness.timers("a") == [(processing, 11), (processing, 13)]
        (letter,) = harness.side_output(OF_ROW)
    assert (letter.row, letter.key, letter.timer) == (None, '"a"', 2)
    assert (letter.timer_domain, letter.batch) == ("processing_time", 1)


def _limited(parallelism: int = 1, **limits: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(
        _fails,
        ROW,
        "k",
        ROW,
        parallelism=parallelism,
        side_outputs=[OF_ROW],
        on_error=keystate.dead_letters(OF_ROW, **limits),
    )


@pytest.mark.parametrize(
    ("limits", "fine", "too_many", "said"),
    [
        ({"max_in_batch": 2}, [-1, -1, 1], [-1, 1, -1, 1, -1], "max_in_batch=2"),
        ({"max_in_a_row": 2}, [-1, -1, 1, -1, -1], [1, -1, -1, -1], "max_in_a_row=2"),
        ({"max_share": 0.5}, [-1, -1, 1, 1], [-1, 1, -1, 1, -1], "max_share=0.5"),
        ({"max_in_batch": 0}, [1, 1], [1, -1], "max_in_batch=0"),
    ],
)
def test_limits(limits: dict[str, Any], fine: list[int], too_many: list[int], said: str) -> None:
    with _limited(**limits) as harness:
        for _ in range(2):  # each micro-batch begins anew
            harness.process_batch([("a", v) for v in fine])
        before = harness.side_output(OF_ROW)
        with pytest.raises(FunctionError, match=said) as error:
            harness.process_batch([("a", v) for v in too_many])
        assert error.value.code == "KEYSTATE_TOO_MANY_DEAD_LETTERS"
        assert "ValueError" in str(error.value)
        assert "-1 is negative" in str(error.value)
        assert harness.side_output(OF_ROW) == before


def test_what_is_no_fault_of_the_row_fails() -> None:
    def no_watermark(row: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(1)

    def out_of_memory(row: Any, ctx: Any) -> Any:
        raise MemoryError

    for fn, error in ((no_watermark, DeclarationError), (out_of_memory, FunctionError)):
        with (
            KeyedProcessHarness(
                fn, ROW, "k", ROW, on_error=keystate.dead_letters(OF_ROW)
            ) as harness,
            pytest.raises(error),
        ):
            harness.process(("a", 1))


class Batches(KeyedBatchFunction):
    """Sums; fails where rows are negative, and with one of 50 for what it returns."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long", default=0))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        values = batch.rows["v"].to_numpy()
        sums = self.sum.value().to_numpy().copy()
        np.add.at(sums, batch.key_of_row, values)
        self.sum.update(sums)
        if (values < 0).any():
            raise ValueError(f"{values.min()} is negative")
        if (values == 50).any():
            return {"k": batch.rows["k"], "v": ["x"] * len(values)}
        if (values == 51).any():
            self.sum.update([1] * (len(sums) + 1))
        return {"k": batch.rows["k"], "v": batch.rows["v"]}


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_functions_of_batches(share: float) -> None:
    """Rows that fail are found by halves; the others are as in a call without them."""
    rng, seen = random.Random(share), 0
    stream = keystate.keyed(rows_of(ROW), "k")
    harness = KeyedProcessHarness.of(
        stream.process_batches(Batches(), ROW, on_error=keystate.dead_letters(OF_ROW)),
        side_outputs=[OF_ROW],
    )
    for _ in range(3):
        rows = [
            (rng.choice("abc"), rng.choice([-1, -2, 50, 51]) if rng.random() < share else i % 40)
            for i in range(rng.randrange(1, 60))
        ]
        good = [row for row in rows if 0 <= row[1] < 50]
        before = {key: harness.state(key, "sum") or 0 for key in "abc"}
        emitted = harness.process_batch(rows)
        assert [tuple(row) for row in emitted] == good
        for key in "abc":
            added = sum(v for k, v in good if k == key)
            assert (harness.state(key, "sum") or 0) == before[key] + added
        letters = harness.side_output(OF_ROW)[seen:]
        seen += len(letters)
        bad = [row for row in rows if row not in good]
        assert [tuple(letter.row) for letter in letters] == bad
        errors = {-1: "ValueError", -2: "ValueError"}
        assert [letter.key for letter in letters] == [json.dumps(k) for k, _ in bad]
        for letter, (_, v) in zip(letters, bad):
            wanted = {50: "OutputTypeError", 51: "StateTypeError"}.get(v) or errors[v]
            assert letter.error.endswith(wanted)


def test_too_many_letters_of_batches() -> None:
    stream = keystate.keyed(rows_of(ROW), "k")
    letters = keystate.dead_letters(OF_ROW, max_in_batch=2)
    harness = KeyedProcessHarness.of(stream.process_batches(Batches(), ROW, on_error=letters))
    harness.process_batch([("a", 1), ("a", -1), ("b", -1)])
    with pytest.raises(FunctionError, match=r"TOO_MANY_DEAD_LETTERS.*ValueError 3 times"):
        harness.process_batch([("a", -1), ("b", 2), ("a", -1), ("b", -1)])


def test_what_does_not_fit_is_refused() -> None:
    stream = keystate.keyed(rows_of(ROW), "k")
    letters = keystate.dead_letters(OF_ROW)
    with pytest.raises(DeclarationError, match="no side outputs but dead letters"):
        batches = stream.process_batches(Batches(), ROW, on_error=letters)
        KeyedProcessHarness.of(batches, side_outputs=[OF_ROW, SIDE])
    with pytest.raises(DeclarationError, match=r"dead_letter_schema\(df.schema\)"):
        tag = OutputTag("dead", "k string")
        KeyedProcessHarness.of(stream.process(_fails, ROW, on_error=keystate.dead_letters(tag)))
    with pytest.raises(DeclarationError, match="on_error is 'fail'"):
        stream.process(_fails, ROW, on_error="skip")
    for wrong in ({"max_in_batch": -1}, {"max_in_a_row": 1.5}, {"max_share": 2}):
        with pytest.raises(DeclarationError, match=next(iter(wrong))):
            keystate.dead_letters(OF_ROW, **wrong)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="OutputTag"):
        keystate.dead_letters("dead")  # type: ignore[arg-type]


RATES = MapStateDescriptor("rates", "string", "long")


class Rated(KeyedBroadcastProcessFunction):
    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long", default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sum.update(self.sum.value() + value.v * ctx.get_broadcast_state(RATES).get("rate"))
        yield value.k, self.sum.value()
        _check(value.v)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RATES).put(value.name, _check(value.rate))


def test_broadcast_state() -> None:
    stream = keystate.keyed(rows_of(ROW), "k")
    rates = keystate.broadcast(rows_of("name string, rate int"), RATES)
    made = stream.connect(rates).process(Rated(), ROW, on_error=keystate.dead_letters(OF_ROW))
    with KeyedProcessHarness.of(made, parallelism=2, side_outputs=[OF_ROW]) as harness:
        harness.process(("a", 1))  # there is no rate yet
        harness.process_broadcast(("rate", 10))
        assert harness.process_batch([("a", 2), ("a", -5), ("a", 3)]) == [("a", 20), ("a", 50)]
        letters = harness.side_output(OF_ROW)
        assert [letter.error for letter in letters] == ["TypeError", "ValueError"]
        with pytest.raises(FunctionError, match="-1 is negative"):
            harness.process_broadcast(("rate", -1))
        assert harness.process(("a", 1)) == [("a", 60)]


class Initial(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long", default=0))

    def process_initial_state(self, state: Any, ctx: Any) -> None:
        self.sum.update(_check(state.n))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sum.update(self.sum.value() + value.v)
        yield value.k, self.sum.value()
        _check(value.v)


def test_initial_state() -> None:
    def made(n: int) -> Any:
        return keystate.keyed(rows_of(ROW), "k").process(
            Initial(),
            ROW,
            initial_state=rows_of("k string, n long", [("a", n)]),
            on_error=keystate.dead_letters(OF_ROW),
        )

    with KeyedProcessHarness.of(made(5), side_outputs=[OF_ROW]) as harness:
        assert harness.process_batch([("a", -1), ("a", 1), ("b", -2)]) == [("a", 6)]
        rows = [tuple(letter.row) for letter in harness.side_output(OF_ROW)]
        assert rows == [("a", -1), ("b", -2)]
    with (
        KeyedProcessHarness.of(made(-5)) as harness,
        pytest.raises(FunctionError, match="-5 is negative"),
    ):
        harness.process(("a", 1))


class Noted(KeyedProcessFunction, CheckpointedFunction):
    """Changes lists and a map of its operator state, and then fails on negative rows."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.all = store.get_list_state(ListStateDescriptor("all", "array<long>"))
        self.last = store.get_union_list_state(ListStateDescriptor("last", "long"))
        self.map = store.get_broadcast_state(MapStateDescriptor("map", "long", "long"))

    def snapshot_state(self, context: Any) -> None: ...

    def process_element(self, value: Any, ctx: Any) -> Any:
        v = abs(value.v)
        self.all.add([v])
        if v % 3 == 0:
            self.last.clear()
        self.last.add_all([v, v])
        if v % 5 == 0:
            self.last.update([v])
            self.all.add([-v])
        self.map.put(v % 4, v)
        self.map.remove(v % 7)
        if v % 11 == 0:
            self.map.clear()
        yield value.k, str([self.all.get(), self.last.get(), list(self.map.items())])
        _check(value.v)


def test_operator_state() -> None:
    """Equal to a function that never had the rows, also when it is restored."""
    rng = random.Random(7)
    made = keystate.keyed(rows_of(ROW), "k")
    out = "k string, seen string"
    letters = keystate.dead_letters(OF_ROW)

    def failing() -> Any:
        return made.process(Noted(), out, on_error=letters)

    def fine() -> Any:
        return made.process(Noted(), out)

    with_letters, without = KeyedProcessHarness.of(failing()), KeyedProcessHarness.of(fine())
    for i in range(6):
        rows = [("a", rng.randrange(-40, 40)) for _ in range(30)]
        good = [row for row in rows if row[1] >= 0]
        assert with_letters.process_batch(rows) == without.process_batch(good)
        if i == 3:
            with_letters = KeyedProcessHarness.restore(with_letters.snapshot(), failing())
            without = KeyedProcessHarness.restore(without.snapshot(), fine())


def test_operator_state_of_many_rows_at_a_time_is_refused() -> None:
    class Checkpointed(Batches, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None: ...

        def snapshot_state(self, context: Any) -> None: ...

    stream = keystate.keyed(rows_of(ROW), "k")
    letters = keystate.dead_letters(OF_ROW)
    with pytest.raises(DeclarationError, match="operator state, which Checkpointed has"):
        KeyedProcessHarness.of(stream.process_batches(Checkpointed(), ROW, on_error=letters))
