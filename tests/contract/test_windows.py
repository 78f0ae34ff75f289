"""Windows in the harness: Flink's cases, triggers and functions with states, and a model."""

from __future__ import annotations

import datetime
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import keystate
import pytest
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    DeclarationError,
    FunctionError,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    Time,
    TimeDomain,
    ValueStateDescriptor,
)
from keystate.errors import CheckpointError, KeystateError
from keystate.testing import KeyedProcessHarness
from keystate.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowFunction,
    window,
)

from tests.attributes import Attributes
from tests.contract.window_cases import (
    CASES,
    OUTPUT,
    Case,
    Clock,
    Restart,
    Sum,
    Total,
    Watermark,
    by_aggregate,
    by_list,
    by_opened_aggregate,
    by_opened_list,
    by_reduce,
)
from tests.drawn import drawn

INPUT = "key string, value long, time timestamp"
LATE = OutputTag("late", INPUT)

TUMBLING = TumblingEventTimeWindows.of(Time.seconds(10))
BUILDS = [by_list, by_reduce, by_aggregate, by_opened_aggregate, by_opened_list]


def harness_of(function: Any, output: str = OUTPUT, **options: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(
        function, INPUT, "key", output, event_time="time", side_outputs=[LATE], **options
    )


def millis(time: Any) -> int:
    return int(time.timestamp() * 1000 + 0.5)


def at(time: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(time / 1000, datetime.timezone.utc)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_in_flink(case: Case, build: Callable[[Any], Any]) -> None:
    function = build(case.windows.side_output_late_data(LATE))
    harness = harness_of(function)
    late: list[Any] = []
    for step, emitted in case.steps:
        if isinstance(step, Restart):
            late += harness.side_output(LATE)
            harness = KeyedProcessHarness.restore(
                harness.snapshot(), function, parallelism=step.parallelism
            )
            found = []
        elif isinstance(step, Watermark):
            found = harness.advance_watermark(step.time)
        elif isinstance(step, Clock):
            found = harness.set_processing_time(step.time)
        elif step.watermark is not None:
            row = step.key, step.value, at(step.time)
            found = harness.process_batch([row], watermark=step.watermark)
        else:
            found = harness.process((step.key, step.value, None), step.time)
        assert sorted(map(tuple, found)) == sorted(emitted), step
    late += harness.side_output(LATE)
    assert [(row.key, row.value, millis(row.time)) for row in late] == list(case.late)
    if not case.name.startswith(("Count", "Continuous", "TimeEvictor", "DeltaEvictor")):
        harness.advance_watermark(10**9)
        harness.set_processing_time(10**9)
        if "CountTrigger" not in case.name:
            assert harness.num_keys == 0, "state is left behind"


# -- a plain model ---------------------------------------------------------------------------------


def fixed(size: int, slide: int) -> Callable[[list[tuple[int, int]]], dict[tuple[int, int], int]]:
    def totals(rows: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = defaultdict(int)
        for time, value in rows:
            for start in range(time // slide * slide, time - size, -slide):
                found[start, start + size - 1] += value
        return found

    return totals


def sessions(gap: int) -> Callable[[list[tuple[int, int]]], dict[tuple[int, int], int]]:
    def totals(rows: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
        found: list[list[int]] = []
        for time, value in sorted(rows):
            if found and time <= found[-1][1]:
                found[-1][1:] = [time + gap, found[-1][2] + value]
            else:
                found.append([time, time + gap, value])
        return {(start, end - 1): total for start, end, total in found}

    return totals


MODELS = {
    "tumbling": (TumblingEventTimeWindows.of(1000), fixed(1000, 1000)),
    "sliding": (SlidingEventTimeWindows.of(1000, 300), fixed(1000, 300)),
    "sessions": (EventTimeSessionWindows.with_gap(400), sessions(400)),
}


class InOrder(AggregateFunction[Any, list[str], str]):
    """What it was given, in that order; it changes its accumulator in place."""

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: Any, accumulator: list[str]) -> list[str]:
        accumulator.append(f"{value.value}")
        return accumulator

    def merge(self, a: list[str], b: list[str]) -> list[str]:
        a += ["and", *b]
        return a

    def get_result(self, accumulator: list[str]) -> str:
        accumulator.append("end")  # of a copy: others go on with what there was
        return " ".join(accumulator)


class OpenedInOrder(InOrder):
    def open(self, ctx: Any) -> None:
        pass


class Keyed(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        named = " ".join(each if isinstance(each, str) else f"{each.value}" for each in inputs)
        yield key, named, window.start
        if len(named) % 3 == 0:
            yield LATE, (key, window.end, at(window.start))


class OpenedKeyed(Keyed):
    def open(self, ctx: Any) -> None:
        pass


@pytest.mark.parametrize("seed", drawn("many rows of windows", range(40), 6))
@pytest.mark.parametrize("lateness", [0, 700])
@pytest.mark.parametrize(
    ("assigner", "kind"),
    [
        (TumblingEventTimeWindows.of(1000), "aggregate"),
        (TumblingEventTimeWindows.of(1000), "list"),
        (SlidingEventTimeWindows.of(1000, 300), "aggregate"),
        (SlidingEventTimeWindows.of(1000, 300), "list"),
        (EventTimeSessionWindows.with_gap(40), "aggregate"),
        (EventTimeSessionWindows.with_gap(200), "aggregate"),
    ],
    ids=["tumbling", "lists", "sliding", "sliding lists", "short sessions", "sessions"],
)
@pytest.mark.long
def test_many_rows_at_a_time_are_as_rows_one_by_one(
    assigner: Any, lateness: int, seed: int, kind: str
) -> None:
    """In the order of each key's rows, with late ones and rows of many keys in a message."""
    chance = random.Random(f"{lateness} {seed}")
    check_one_by_one(window(assigner).allowed_lateness(lateness), kind, chance, [0, 1, 30])


def check_one_by_one(
    windows: Any,
    kind: str,
    chance: random.Random,
    sizes: list[int],
    restarts: bool = True,
    prepare: Callable[[Any], None] = lambda harness: None,
) -> None:
    """Checks that rows which come many at a time fire what rows one by one do.

    Args:
        windows: the windows.
        kind: whether they have the "list" of their rows, or an "aggregate".
        chance: draws the program.
        sizes: how many rows a micro-batch can have.
        restarts: whether one way goes on from the other, on other numbers of subtasks.
        prepare: is given the first harness of the two, also after each restart.
    """
    windows = windows.side_output_late_data(LATE)
    if kind == "list":
        functions = [windows.apply(Keyed()), windows.apply(OpenedKeyed())]
    else:
        functions = [
            windows.aggregate(in_order, "array<string>", Keyed())
            for in_order in (InOrder(), OpenedInOrder())
        ]
    output = "key string, named string, start long"
    harnesses = [harness_of(function, output, parallelism=2) for function in functions]
    prepare(harnesses[0])
    keys = chance.choice(["abc", "abcdefghijklmnopqrst"])
    watermark = 1000
    for n in range(30):
        batch = []
        for _ in range(chance.choice(sizes)):
            time = max(0, watermark + chance.randint(-1500, 1500))
            batch.append((chance.choice(keys), chance.randint(1, 100), at(time)))
        watermark += chance.randint(0, 800)
        until = watermark if chance.random() < 0.5 else None
        found = [harness.process_batch(batch, watermark=until) for harness in harnesses]
        one, other = [sorted(rows, key=lambda row: row.key) for rows in found]
        assert one == other, n
        if restarts and chance.random() < 0.1:
            parallelism = chance.randint(1, 3)
            harnesses = [
                KeyedProcessHarness.restore(harness.snapshot(), function, parallelism=parallelism)
                for harness, function in zip(harnesses, functions[:: chance.choice([1, -1])])
            ]
            prepare(harnesses[0])
    for harness in harnesses:
        harness.advance_watermark(10**6)
        assert harness.num_keys == 0
    one, other = [sorted(harness.side_output(LATE)) for harness in harnesses]
    assert one == other


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("lateness", [0, 300])
@pytest.mark.parametrize(
    "ways",
    [(by_aggregate, by_opened_aggregate), (by_list, by_opened_list)],
    ids=["aggregate", "list"],
)
@pytest.mark.parametrize("back", [False, True], ids=["grouped", "one by one"])
def test_each_window_has_a_timer_of_its_own(
    ways: Any, back: bool, lateness: int, restarts: bool
) -> None:
    """Its windows fire on time, one after the other, also if a restart goes on in the other way."""
    sliding = window(SlidingEventTimeWindows.of(1000, 250)).allowed_lateness(lateness)
    first, second = (way(sliding) for way in (reversed(ways) if back else ways))
    harness = harness_of(first)
    harness.process_batch([("a", 1, at(100)), ("a", 2, at(1100))])
    ends = [*range(250, 1001, 250), *range(1250, 2001, 250)]
    timers = [(TimeDomain.EVENT_TIME, end - 1, (end - 1000, end)) for end in ends]
    assert harness.timers("a") == timers
    for watermark in range(124, 2400, 125):
        if restarts and watermark == 624:
            harness = KeyedProcessHarness.restore(harness.snapshot(), second)
        fired = [row[3] for row in harness.advance_watermark(watermark)]
        assert fired == ([watermark] if watermark % 250 == 249 and watermark < 2000 else [])
    assert harness.num_keys == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (before, after)
        for ways in ((by_aggregate, by_opened_aggregate), (by_list, by_opened_list))
        for before in ways
        for after in ways
    ],
)
def test_a_window_fires_on_time_beside_a_late_row(before: Any, after: Any) -> None:
    """A row of a window that has fired in the micro-batch in which it began."""
    lateness = 0 if before in (by_list, by_opened_list) else 5000
    windows = window(TumblingEventTimeWindows.of(1000)).allowed_lateness(lateness)
    harness = harness_of(before(windows))
    # The watermark passes the first window in the micro-batch in which it begins.
    rows = [("a", 1, at(500)), ("a", 2, at(1500))]
    assert [row.total for row in harness.process_batch(rows, watermark=1100)] == [1]
    harness = KeyedProcessHarness.restore(harness.snapshot(), after(windows))
    fired = harness.process_batch([("a", 4, at(600))], watermark=2100)
    again = [(5, 999)] if lateness else []
    assert [(row.total, row.last) for row in fired] == [*again, (2, 1999)]


WAYS = [by_aggregate, by_reduce, by_opened_aggregate, by_list]


@pytest.mark.parametrize("lateness", [(10_000, 500), (500, 10_000), (10_000, 0), (0, 500)])
@pytest.mark.parametrize("before", WAYS)
def test_new_windows_fire_on_time_by_another_lateness(
    before: Any, lateness: tuple[int, int]
) -> None:
    """Also beside one that is kept by the lateness of before, whose timer comes much later."""
    afters = [before] if before is by_list else [w for w in WAYS if w is not by_list]
    for after in afters:
        first, second = (
            way(window(TumblingEventTimeWindows.of(1000)).allowed_lateness(late))
            for way, late in zip((before, after), lateness)
        )
        if by_reduce in (before, after) and before is not after:
            continue  # what a reduce keeps is a row
        harness = harness_of(first)
        harness.process(("a", 1, None), 100)
        assert [row[3] for row in harness.advance_watermark(1100)] == [999]
        harness = KeyedProcessHarness.restore(harness.snapshot(), second)
        for start in range(2000, 6000, 1000):
            harness.process_batch([("a", 1, at(start + 100))])
            assert [row[3] for row in harness.advance_watermark(start + 1100)] == [start + 999]
        harness.advance_watermark(30_000)
        assert harness.num_keys == 0


_TUMBLING_CLOCK = TumblingProcessingTimeWindows.of(1000)
_SESSIONS = EventTimeSessionWindows.with_gap(1000)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (by_aggregate(window(TUMBLING)), by_aggregate(window(_TUMBLING_CLOCK))),
        (by_list(window(TUMBLING)), by_opened_list(window(_TUMBLING_CLOCK))),
        (by_opened_aggregate(window(TUMBLING)), by_aggregate(window(_SESSIONS))),
        (by_aggregate(window(TUMBLING)), by_list(window(TUMBLING))),
        (by_list(window(_SESSIONS)), by_reduce(window(_SESSIONS))),
        (by_list(window(GlobalWindows.create())), by_reduce(window(GlobalWindows.create()))),
    ],
    ids=["clock", "clock of lists", "merging", "contents", "contents of sessions", "global"],
)
def test_open_windows_keep_clock_merging_and_contents(one: Any, other: Any, back: bool) -> None:
    before, after = (other, one) if back else (one, other)
    harness = harness_of(before)
    harness.process_batch([("a", 1, at(100))], watermark=50)
    kept = harness.snapshot()
    with pytest.raises(CheckpointError, match=r"KEYSTATE_OPEN_WINDOWS.*there are: "):
        KeyedProcessHarness.restore(kept, after)
    KeyedProcessHarness.restore(kept, before)
    if harness.timers("a"):
        harness.advance_watermark(10**6)
        harness.set_processing_time(10**6)
        harness = KeyedProcessHarness.restore(harness.snapshot(), after)
        harness.process_batch([("a", 2, at(2 * 10**6))])
        fired = harness.advance_watermark(10**7) + harness.set_processing_time(10**7)
        assert [row.total for row in fired] == [2]
        assert harness.num_keys == 0


@dataclass
class Sale:
    key: str
    value: int
    time: datetime.datetime
    tags: list[str]


class Doubled(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        assert all(isinstance(sale, Sale) for sale in inputs)
        tags = [tag for sale in inputs for tag in sale.tags]
        yield key, f"{sum(2 * sale.value for sale in inputs)} {tags}", window.start


class OpenedDoubled(Doubled):
    def open(self, ctx: Any) -> None:
        pass


def of_sales(windows: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(
        windows,
        f"{INPUT}, tags array<string>",
        "key",
        "key string, named string, start long",
        event_time="time",
        row_type=Sale,
    )


@pytest.mark.parametrize("function", [Doubled(), OpenedDoubled()], ids=["many rows", "one by one"])
@pytest.mark.parametrize("lateness", [0, 700])
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(1000),
        SlidingEventTimeWindows.of(1000, 1000),
        EventTimeSessionWindows.with_gap(995),
    ],
    ids=["tumbling", "sliding", "sessions"],
)
def test_lists_are_of_the_dataclass_of_the_rows(
    assigner: Any, lateness: int, function: WindowFunction
) -> None:
    """Those too that came in an earlier micro-batch, or before a restart."""
    windows = window(assigner).allowed_lateness(lateness).apply(function)
    harness = of_sales(windows)
    harness.process_batch([("a", 1, at(5), ["x"]), ("b", 2, at(5), [])])
    harness = KeyedProcessHarness.restore(harness.snapshot(), windows)
    harness.process_batch([("a", 3, at(5), ["y"])])
    found = harness.advance_watermark(5000)
    start = 5 if isinstance(assigner, EventTimeSessionWindows) else 0
    assert sorted(map(tuple, found)) == [("a", "8 ['x', 'y']", start), ("b", "4 []", start)]


def of_two(one: Sale, other: Sale) -> Sale:
    assert type(one) is type(other) is Sale
    return replace(one, value=one.value + other.value)


@pytest.mark.parametrize("function", [Doubled(), OpenedDoubled()], ids=["many rows", "one by one"])
@pytest.mark.parametrize("lateness", [0, 700])
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows.of(1000), EventTimeSessionWindows.with_gap(995)],
    ids=["tumbling", "sessions"],
)
def test_reduce_is_given_the_dataclass_of_the_rows(
    assigner: Any, lateness: int, function: WindowFunction
) -> None:
    """The result so far too, also where it is of an earlier micro-batch, or before a restart."""
    windows = window(assigner).allowed_lateness(lateness).reduce(of_two, function)
    harness = of_sales(windows)
    harness.process_batch([("a", 1, at(5), ["x"]), ("b", 2, at(5), [])])
    harness = KeyedProcessHarness.restore(harness.snapshot(), windows)
    harness.process_batch([("a", 3, at(5), ["y"]), ("a", 4, at(5), [])])
    found = harness.advance_watermark(5000)
    assert sorted(row.named for row in found) == ["16 ['x']", "4 []"]


class Tags(AggregateFunction[Any, Any, Any]):
    """Changes the rows that it is given."""

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: Any, accumulator: list[str]) -> list[str]:
        value.value += 1
        value.tags.append(str(value.value))
        return accumulator + value.tags

    def get_result(self, accumulator: list[str]) -> tuple[str, str, int]:
        return "", repr(accumulator), 0


class OpenedTags(Tags):
    def open(self, ctx: Any) -> None:
        pass


@pytest.mark.parametrize("function", [Tags(), OpenedTags()], ids=["many rows", "one by one"])
@pytest.mark.parametrize("lateness", [0, 700])
def test_each_window_is_given_a_row_of_a_dataclass_as_it_came(lateness: int, function: Any) -> None:
    windows = window(SlidingEventTimeWindows.of(1000, 500)).allowed_lateness(lateness)
    harness = of_sales(windows.aggregate(function, "array<string>"))
    harness.process_batch([("a", 1, at(600), ["x"])])
    assert [row.named for row in harness.advance_watermark(5000)] == ["['x', '2']"] * 2


class Picky(Sum):
    def __init__(self, wrong: Any) -> None:
        self.wrong = wrong

    def add(self, value: Any, accumulator: int) -> int:
        if value.value == 7:
            if self.wrong is None:
                raise ArithmeticError("seven")
            return self.wrong
        return super().add(value, accumulator)

    def get_result(self, accumulator: int) -> int:
        if accumulator == 5:
            raise ArithmeticError("five")
        return accumulator


class OpenedPicky(Picky):
    def open(self, ctx: Any) -> None:
        pass


@pytest.mark.parametrize("picky", [Picky, OpenedPicky])
@pytest.mark.parametrize(
    ("wrong", "value", "told"),
    [
        (
            None,
            7,
            r"(?s)ArithmeticError: seven.*key 'b', row Row\(key='b', value=7",
        ),
        (2**63, 7, r"state 'window-contents' of key 'b': .*9223372036854775808"),
        ("many", 7, r"state 'window-contents' of key 'b': expected bigint, got str 'many'"),
        (None, 5, r"(?s)ArithmeticError: five.*while processing key 'b', timer 9999"),
    ],
)
def test_an_error_names_key_and_row(picky: type[Picky], wrong: Any, value: int, told: str) -> None:
    """Also where a message has rows of many keys."""
    for lateness in (0, 1000):
        windows = window(TUMBLING).allowed_lateness(lateness)
        harness = harness_of(windows.aggregate(picky(wrong), "long", Total()))
        rows = [(key, i + 10, at(1000 * i)) for i, key in enumerate("abcabc")]
        rows[4] = ("b", value, at(12_000 if value == 7 else 500))
        if value == 5:
            del rows[1]
        with pytest.raises(KeystateError, match=told):
            harness.process_batch(rows, watermark=15_000)
            harness.advance_watermark(16_000)


@pytest.mark.parametrize("picky", [Picky, OpenedPicky])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (None, r"(?s)ArithmeticError: seven.*key 'b', row Row\(key='b', value=7"),
        ("many", r"state 'session-contents' of key 'b': expected bigint, got str 'many'"),
    ],
)
@pytest.mark.parametrize("order", [[1, 2, 3], [3, 1, 2], [1, 3, 2]], ids=str)
def test_an_error_of_a_session_names_key_and_row(
    picky: type[Picky], order: list[int], wrong: Any, told: str
) -> None:
    """Also of a row that brings sessions together."""
    assigner = EventTimeSessionWindows.with_gap(1000)
    harness = harness_of(window(assigner).aggregate(picky(wrong), "long", Total()))
    rows = [(key, 7 if key == "b" and i == 2 else i, at(900 * i)) for i in order for key in "abc"]
    with pytest.raises(KeystateError, match=told):
        harness.process_batch(rows)
        harness.advance_watermark(16_000)


@pytest.mark.parametrize("count", ["many rows", "one by one"])
def test_a_row_without_time_is_named(count: str) -> None:
    build = by_aggregate if count == "many rows" else by_opened_aggregate
    harness = harness_of(build(window(TUMBLING)))
    told = r"(?s)the row has no event time.*while processing key 'b', row Row\(key='b', value=2"
    with pytest.raises(KeystateError, match=told):
        harness.process_batch([("a", 1, at(5)), ("b", 2, None), ("c", 3, None)])


@pytest.mark.parametrize("seed", drawn("rows of windows", range(5), 2))
@pytest.mark.parametrize("lateness", [0, 700])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.long
def test_any_rows_give_what_a_model_gives(model: str, lateness: int, seed: int) -> None:
    """Without late rows each window is emitted once; by any way, and over restarts."""
    chance = random.Random(f"{model} {lateness} {seed}")
    assigner, totals = MODELS[model]
    functions = [build(window(assigner).allowed_lateness(lateness)) for build in BUILDS]
    harnesses = [harness_of(function, parallelism=chance.randint(1, 4)) for function in functions]
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    emitted: list[list[Any]] = [[] for _ in harnesses]
    watermark = 1
    for _ in range(30):
        batch = []
        for _ in range(chance.randint(0, 12)):
            key, value = chance.choice("abc"), chance.randint(1, 100)
            time = watermark + 1 + chance.randint(0, 2500)
            rows[key].append((time, value))
            batch.append((key, value, at(time)))
        watermark += chance.randint(0, 800)
        for i, harness in enumerate(harnesses):
            emitted[i] += harness.process_batch(batch)
            emitted[i] += harness.advance_watermark(watermark)
            if chance.random() < 0.1:
                harnesses[i] = KeyedProcessHarness.restore(
                    harness.snapshot(), functions[i], parallelism=chance.randint(1, 5)
                )
    expected = sorted(
        (key, total, start, last)
        for key, mine in rows.items()
        for (start, last), total in totals(mine).items()
    )
    for harness, found in zip(harnesses, emitted):
        found += harness.advance_watermark(10**6)
        assert sorted(map(tuple, found)) == expected
        assert harness.num_keys == 0


# -- micro-batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lateness", [0, 20_000])
def test_rows_come_before_the_watermark_of_their_micro_batch(lateness: int) -> None:
    harness = harness_of(by_aggregate(window(TUMBLING).allowed_lateness(lateness)))
    assert harness.process(("a", 1, None), 5000) == []
    # Counts for the window that this micro-batch closes, which fires once.
    rows = [("a", 2, at(6000)), ("b", 4, at(6000))]
    # A window that began in it fires too.
    both = [("a", 3, 0, 9999), ("b", 4, 0, 9999)]
    assert harness.process_batch(rows, watermark=20_000) == both
    late = [("b", 8, at(6000))] if lateness else []
    assert harness.process_batch(late) == ([("b", 12, 0, 9999)] if lateness else [])


def test_a_watermark_that_passes_several_times_fires_at_each_of_them() -> None:
    windows = window(TUMBLING).trigger(ContinuousEventTimeTrigger.of(Time.seconds(2)))
    harness = harness_of(by_aggregate(windows))
    harness.process(("a", 1, None), 1000)
    assert len(harness.advance_watermark(5000)) == 2
    harness.process(("a", 1, None), 7000)
    assert [row.total for row in harness.advance_watermark(30_000)] == [2, 2, 2]
    assert harness.num_keys == 0


def test_processing_time_that_passes_several_times_fires_once() -> None:
    windows = window(TumblingProcessingTimeWindows.of(10_000))
    windows = windows.trigger(ContinuousProcessingTimeTrigger.of(2000))
    harness = harness_of(by_aggregate(windows))
    harness.process(("a", 1, None), 1000)
    assert len(harness.set_processing_time(7000)) == 1
    assert len(harness.set_processing_time(8000)) == 1
    assert harness.set_processing_time(8100) == []
    assert len(harness.set_processing_time(9999)) == 1
    harness.set_processing_time(20_000)
    assert harness.num_keys == 0


def test_the_windows_that_are_open_fire_after_a_change_of_lateness_or_trigger() -> None:
    plain = by_aggregate(window(TUMBLING))
    late = by_aggregate(window(TUMBLING).allowed_lateness(5000))
    counts = by_aggregate(window(TUMBLING).trigger(CountTrigger.of(2)))
    for before, after in ((plain, late), (late, plain), (counts, plain)):
        harness = harness_of(before)
        harness.process(("a", 1, None), 1000)
        harness = KeyedProcessHarness.restore(harness.snapshot(), after)
        harness.process(("a", 2, None), 12_000)
        assert harness.advance_watermark(9999) == [("a", 1, 0, 9999)]
        assert harness.advance_watermark(50_000) == [("a", 2, 10_000, 19_999)]
        assert harness.num_keys == 0


@pytest.mark.parametrize("lateness", [0, 5000])
@pytest.mark.parametrize("build", [by_list, by_reduce, by_aggregate])
def test_a_session_that_grew_at_its_front_fires_once(
    build: Callable[[Any], Any], lateness: int
) -> None:
    sessions = window(EventTimeSessionWindows.with_gap(400)).allowed_lateness(lateness)
    harness = harness_of(build(sessions))
    # The last row brings two sessions together, one of which has grown at its front.
    rows = [("a", each, at(time)) for each, time in [(1, 1000), (2, 900), (4, 400), (8, 700)]]
    assert harness.process_batch(rows) == []
    assert harness.advance_watermark(1398) == []
    assert harness.advance_watermark(1399) == [("a", 15, 400, 1399)]
    assert harness.advance_watermark(100_000) == []
    assert harness.num_keys == 0


class AWeekLater(TumblingEventTimeWindows):
    """Assigns windows in its own way."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [TimeWindow(0, 604_800_000)]


class EachRow(TumblingEventTimeWindows):
    """Has a trigger of its own."""

    def get_default_trigger(self) -> Trigger:
        return CountTrigger.of(1)


class MergedByTens(TumblingEventTimeWindows, MergingWindowAssigner):
    """Merges windows that begin in the same ten seconds."""

    def merge_windows(self, windows: Any, callback: Any) -> None:
        tens: dict[int, list[Any]] = defaultdict(list)
        for each in windows:
            tens[each.start // 10_000].append(each)
        for ten, merged in tens.items():
            if len(merged) > 1:
                callback(merged, TimeWindow(ten * 10_000, ten * 10_000 + 9999))


@pytest.mark.parametrize("lateness", [0, 5000])
@pytest.mark.parametrize("build", [by_list, by_reduce, by_aggregate])
def test_windows_of_a_size_that_are_merged(build: Callable[[Any], Any], lateness: int) -> None:
    harness = harness_of(build(window(MergedByTens.of(1000)).allowed_lateness(lateness)))
    assert (
        harness.process_batch([("a", 1, at(500)), ("a", 2, at(4500)), ("a", 4, at(12_500))]) == []
    )
    assert harness.advance_watermark(100_000) == [("a", 3, 0, 9998), ("a", 4, 12_000, 12_999)]
    assert harness.num_keys == 0


@pytest.mark.parametrize("build", [by_list, by_reduce, by_aggregate])
def test_a_class_of_the_users_is_asked(build: Callable[[Any], Any]) -> None:
    harness = harness_of(build(window(AWeekLater.of(1000))))
    assert harness.process(("a", 1, None), 500) == []
    assert harness.advance_watermark(5000) == []
    assert harness.advance_watermark(604_800_000) == [("a", 1, 0, 604_799_999)]
    harness = harness_of(build(window(EachRow.of(1000))))
    assert harness.process(("a", 1, None), 500) == [("a", 1, 0, 999)]


# -- states of triggers and functions --------------------------------------------------------------


class FirstThenLast(Trigger):
    """Fires for a window's first row and when the watermark passes its end; has all hooks."""

    def __init__(self) -> None:
        self.seen = ValueStateDescriptor[bool]("seen", "boolean", default=False)
        self.values = ListStateDescriptor[int]("values", "long")

    def open(self, ctx: Any) -> None:
        self.seen_state = ctx.get_state(self.seen)
        ctx.get_list_state(self.values)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.get_partitioned_state(self.values).add(element.value)
        ctx.register_event_time_timer(window.max_timestamp())
        if self.seen_state.value():
            return TriggerResult.CONTINUE
        self.seen_state.update(True)
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        values = ctx.get_partitioned_state(self.values)
        assert all(value > 0 for value in values.get())
        return TriggerResult.FIRE_AND_PURGE if len(values.get()) > 1 else TriggerResult.PURGE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.values)
        ctx.register_event_time_timer(window.max_timestamp())
        self.seen_state.update(True)

    def clear(self, window: Any, ctx: Any) -> None:
        self.seen_state.clear()
        ctx.get_partitioned_state(self.values).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


def test_a_trigger_of_ones_own() -> None:
    harness = harness_of(by_aggregate(window(TUMBLING).trigger(FirstThenLast())))
    assert harness.process(("a", 1, None), 1000) == [("a", 1, 0, 9999)]
    assert harness.process(("a", 2, None), 2000) == []
    assert harness.process(("b", 2, None), 2000) == [("b", 2, 0, 9999)]
    assert harness.advance_watermark(10_000) == [("a", 3, 0, 9999)]
    assert harness.num_keys == 0
    of_sessions = window(EventTimeSessionWindows.with_gap(1000)).trigger(FirstThenLast())
    harness = harness_of(by_aggregate(of_sessions))
    harness.process(("a", 1, None), 1000)
    harness.process(("a", 2, None), 2500)
    assert harness.process(("a", 4, None), 1700) == []
    assert harness.advance_watermark(10_000) == [("a", 7, 1000, 3499)]
    assert harness.num_keys == 0


class Counting(ProcessWindowFunction):
    """How often a window and a key have fired, and of how many values, each once."""

    fired = ReducingStateDescriptor[int]("fired", lambda a, b: a + b, "long")
    values = MapStateDescriptor[str, bool]("values", "string", "boolean")

    def open(self, ctx: Any) -> None:
        self.in_window = ctx.window_state().get_reducing_state(self.fired)
        ctx.window_state().get_map_state(self.values)
        ctx.global_state().get_reducing_state(self.fired)

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        total = context.global_state().get_reducing_state(self.fired)
        values = context.window_state().get_map_state(self.values)
        self.in_window.add(1)
        total.add(1)
        values.put_all({str(row.value): True for row in elements})
        assert "none" not in values and values[str(elements[0].value)] is True
        yield key, self.in_window.get() * 100 + total.get(), len(list(values)), values.is_empty()

    def clear(self, context: Any) -> None:
        self.in_window.clear()
        context.window_state().get_map_state(self.values).clear()


def test_states_of_a_window_and_of_a_key() -> None:
    windows = window(TUMBLING).trigger(CountTrigger.of(1))
    output = "key string, fired long, values long, empty boolean"
    harness = harness_of(windows.process(Counting()), output)
    fired = [harness.process(("a", v, None), t) for v, t in ((1, 1), (2, 9000), (1, 10_000))]
    assert fired == [
        [("a", 101, 1, False)], [("a", 202, 2, False)], [("a", 103, 1, False)],
    ]  # fmt: skip
    assert harness.process(("a", 1, None), 9500) == [("a", 304, 2, False)]
    harness.advance_watermark(10_000)
    assert len(harness.state("a", "window-state-fired")) == 1
    assert harness.state("a", "fired") == 4
    harness.advance_watermark(30_000)
    assert not harness.state("a", "window-state-fired")
    assert not harness.state("a", "window-state-values")
    assert harness.process(("a", 5, None), 31_000) == [("a", 105, 1, False)]


class Gathers(ProcessWindowFunction):
    """Changes a default in place, and uses defaults and accumulators by the names of fields."""

    def open(self, ctx: Any) -> None:
        states = ctx.window_state()
        self.seen = states.get_state(ValueStateDescriptor("seen", "array<long>", default=[]))
        self.pair = states.get_state(ValueStateDescriptor("pair", "n long, m long", default=(1, 2)))
        self.sum = states.get_aggregating_state(
            AggregatingStateDescriptor("sum", Named(), "n long")
        )

    def process(self, key: str, context: Any, elements: Any) -> Any:
        seen = self.seen.value()
        for element in elements:
            seen.append(element.value)
            self.sum.add(element.value)
        self.seen.update(seen)
        yield f"{key}: {seen} {self.pair.value().m} {self.sum.get()}"


class Named(AggregateFunction[int, Any, int]):
    def create_accumulator(self) -> Any:
        return (0,)

    def add(self, value: int, accumulator: Any) -> Any:
        return (accumulator.n + value,)

    def get_result(self, accumulator: Any) -> int:
        return accumulator.n  # type: ignore[no-any-return]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a.n + acc_b.n,)


def test_defaults_of_a_windows_states() -> None:
    harness = harness_of(window(TUMBLING).process(Gathers()), "told string")
    harness.process_batch([("a", 1, at(0)), ("a", 2, at(10_000)), ("b", 3, at(0))])
    told = sorted(row.told for row in harness.advance_watermark(30_000))
    assert told == ["a: [1] 2 1", "a: [2] 2 2", "b: [3] 2 3"]


class Spread(WindowFunction):
    """Returns its results in the ways there are."""

    def apply(self, key: Any, window: TimeWindow, inputs: Any) -> Any:
        values = [row.value for row in inputs]
        if key == "none":
            return None
        if key == "list":
            return [(key, value) for value in values]
        if key == "attributes":
            return Attributes(key=key, value=4)
        return key, sum(values)


def test_results_of_window_functions() -> None:
    harness = harness_of(window(TUMBLING).apply(Spread()), "key string, value long")
    for key in ("none", "list", "one", "attributes"):
        harness.process((key, 1, None), 1000)
        harness.process((key, 2, None), 1000)
    expected = [("attributes", 4), ("list", 1), ("list", 2), ("one", 3)]
    assert sorted(harness.advance_watermark(10_000)) == expected


def test_results_without_a_window_function() -> None:
    harness = harness_of(window(TUMBLING).aggregate(Sum(), "long"), "total long")
    harness.process(("a", 1, None), 1000)
    assert harness.advance_watermark(10_000) == [(1,)]
    reduced = window(EventTimeSessionWindows.with_dynamic_gap(lambda row: row.value * 1000))
    harness = harness_of(reduced.reduce(lambda a, b: (a.key, a.value + b.value, a.time)), INPUT)
    harness.process(("a", 5, None), 1000)
    harness.process(("a", 1, None), 4000)
    harness.process(("a", 1, None), 8000)
    assert [row.value for row in harness.advance_watermark(7000)] == [6]
    assert [row.value for row in harness.advance_watermark(9000)] == [1]


class Big(Sum):
    """Only windows with more than one row have a result."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value.value

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[1] if accumulator[0] > 1 else None


class OpenedBig(Big):
    def open(self, ctx: Any) -> None:
        pass


class NoneIsGiven(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        for total in elements:
            yield key, total + 0


#: Each way to have windows, of 10 s or as long: with three rows of two keys.
WITHOUT_RESULT = {
    "tumbling": window(TUMBLING),
    "sliding": window(SlidingEventTimeWindows.of(10_000, 10_000)),
    "late": window(TUMBLING).allowed_lateness(1000),
    "sessions": window(EventTimeSessionWindows.with_gap(3000)),
    "dynamic sessions": window(EventTimeSessionWindows.with_dynamic_gap(lambda row: 3000)),
    "another trigger": window(TUMBLING).trigger(PurgingTrigger.of(EventTimeTrigger.create())),
    "evictor": window(TUMBLING).evictor(CountEvictor.of(9)),
    "evictor of all": window(TUMBLING).evictor(CountEvictor.of(1)),
}


@pytest.mark.parametrize("fold", [Big, OpenedBig], ids=["many rows", "one by one"])
@pytest.mark.parametrize("function", [None, NoneIsGiven()], ids=["alone", "window function"])
@pytest.mark.parametrize("name", WITHOUT_RESULT)
@pytest.mark.parametrize("letters", [False, True])
def test_an_aggregate_without_a_result_emits_nothing(
    name: str, function: Any, fold: Any, letters: bool
) -> None:
    """As in Flink, and as elsewhere: None is no result."""
    dead = OutputTag("dead", keystate.dead_letter_schema())
    options: dict[str, Any] = {"on_error": keystate.dead_letters(dead)} if letters else {}
    harness = KeyedProcessHarness(
        WITHOUT_RESULT[name].aggregate(fold(), "count long, total long", function),
        INPUT,
        "key",
        "total long" if function is None else "key string, total long",
        event_time="time",
        side_outputs=[LATE, dead],
        **options,
    )
    harness.process_batch([("a", 1, at(0)), ("b", 2, at(1000)), ("b", 3, at(2000))])
    emitted = harness.advance_watermark(20_000)
    total = (5,) if function is None else ("b", 5)
    assert emitted == ([] if name == "evictor of all" else [total])
    assert harness.side_output(dead) == []


# -- what is refused -------------------------------------------------------------------------------


class NoMerge(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator

    def get_result(self, accumulator: int) -> int:
        return accumulator


class OnlyTumbling(EventTimeTrigger):
    def can_merge(self) -> bool:
        return False


class WindowStateOfSessions(Total):
    def open(self, ctx: Any) -> None:
        ctx.window_state().get_state(ValueStateDescriptor("x", "long"))


class WrongDefault(Total):
    def open(self, ctx: Any) -> None:
        ctx.window_state().get_state(ValueStateDescriptor("x", "long", default="none"))


class SortedInWindow(Total):
    def open(self, ctx: Any) -> None:
        ctx.window_state().get_sorted_map_state(SortedMapStateDescriptor("x", "long", "long"))


class CountsToo(Trigger):
    """Has a state with the name of that of a CountTrigger, which it asks."""

    def __init__(self, opens: bool) -> None:
        self.inner = CountTrigger.of(2)
        self.opens = opens
        self.count = ValueStateDescriptor("count", "long")

    def open(self, ctx: Any) -> None:
        self.inner.open(ctx)
        if self.opens:
            ctx.get_state(self.count)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.get_partitioned_state(self.count).update(1)
        return self.inner.on_element(element, timestamp, window, ctx)

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: Any) -> None: ...


class TwoKinds(Total):
    def __init__(self, of_window: bool) -> None:
        self.of_window = of_window

    def open(self, ctx: Any) -> None:
        states = ctx.window_state() if self.of_window else ctx.global_state()
        states.get_state(ValueStateDescriptor("x", "long"))
        states.get_list_state(ListStateDescriptor("x", "long"))


SESSIONS = EventTimeSessionWindows.with_gap(1000)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: window(TumblingEventTimeWindows.of(0)), "size and slide must be more than 0"),
        (lambda: window(TumblingEventTimeWindows.of(5, 5)), "the offset less than the slide"),
        (lambda: window(EventTimeSessionWindows.with_gap(0)), "the gap of a session must be more"),
        (
            lambda: window(EventTimeSessionWindows.with_gap(2**63 - 1)),
            "more than 0 and at most 4611686018427387904 ms, got 9223372036854775807 ms",
        ),
        (lambda: window("tumbling"), r"of class WindowAssigner, as Tumbling.*, got 'tumbling'"),
        (lambda: window(TUMBLING).trigger(CountTrigger), "expected an object of class Trigger"),
        (lambda: window(TUMBLING).evictor(3), "expected an object of class Evictor"),
        (lambda: window(TUMBLING).allowed_lateness(-1), "can't be negative, got -1 ms"),
        (lambda: window(TUMBLING).process(lambda *a: None), "of class ProcessWindowFunction"),
        (lambda: window(TUMBLING).aggregate(Sum(), "long", max), "ProcessWindowFunction or Wind"),
        (lambda: window(SESSIONS).aggregate(NoMerge(), "long"), "NoMerge does not define merge"),
        (lambda: window(SESSIONS).trigger(OnlyTumbling()).process(Total()), "has no on_merge"),
        (lambda: CountTrigger.of(0), "a count of at least 1"),
        (lambda: CountEvictor.of(-1), "a count of at least 0"),
        (lambda: ContinuousEventTimeTrigger.of(0), "an interval of more than 0"),
        (
            lambda: harness_of(window(SESSIONS).process(WindowStateOfSessions())),
            r"a window has no state of its own: use global_state\(\)",
        ),
        (
            lambda: harness_of(window(TUMBLING).trigger(CountsToo(True)).process(Total())),
            "'count', one by a ReducingStateDescriptor and one by a ValueStateDescriptor: give one",
        ),
        (
            lambda: harness_of(window(TUMBLING).trigger(CountsToo(False)).process(Total())).process(
                ("a", 1, at(0))
            ),
            "'count', one by a ReducingStateDescriptor and one by a ValueStateDescriptor: give one",
        ),
        *(
            (
                lambda of=of_window: harness_of(window(TUMBLING).process(TwoKinds(of))),
                "'x', one by a ValueStateDescriptor and one by a ListStateDescriptor: give one",
            )
            for of_window in (True, False)
        ),
        (
            lambda: harness_of(window(TUMBLING).process(SortedInWindow())),
            "state 'x' is a sorted map state, which a window can't have",
        ),
        (
            lambda: harness_of(window(TUMBLING).process(WrongDefault())),
            "the default of state 'x': expected bigint, got str 'none'",
        ),
        (
            lambda: KeyedProcessHarness(by_list(window(TUMBLING)), INPUT, "key", OUTPUT),
            "TumblingEventTimeWindows need a watermark",
        ),
    ],
)
def test_what_is_refused(declare: Callable[[], Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare()


def test_durations() -> None:
    with pytest.raises(TypeError, match="the size of a window must be a Time"):
        TumblingEventTimeWindows.of("5 minutes")  # type: ignore[arg-type]


def test_rows_without_event_time_and_bad_gaps() -> None:
    with pytest.raises(FunctionError, match="the row has no event time"):
        harness_of(by_list(window(TUMBLING))).process(("a", 1, None))
    negative = window(EventTimeSessionWindows.with_dynamic_gap(lambda row: row.value))
    for gap in (-1, 2**63 - 1):
        with pytest.raises(FunctionError, match="the gap of a session must be an int in ms"):
            harness_of(by_list(negative)).process(("a", gap, None), 1000)
    last = datetime.datetime(9999, 12, 31, tzinfo=datetime.timezone.utc)
    for build in BUILDS:
        widest = harness_of(build(window(EventTimeSessionWindows.with_gap(2**62))))
        assert widest.process_batch([("a", 1, at(0)), ("a", 2, last)]) == []
        emitted = widest.advance_watermark(2**63 - 2)
        assert [row[:2] for row in emitted] == [("a", 3)]
    fired = window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    harness = harness_of(by_list(fired))
    harness.process(("a", 1, None))
    assert harness.process(("a", 1, None)) == [("a", 2, None, None)]


# -- what a function is handed is its own ----------------------------------------------------------

LISTS = "key string, xs array<long>, time timestamp"


class Takes(ProcessWindowFunction):
    """Emits what the elements have, and then changes them."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        seen = [x for each in elements for x in (each if isinstance(each, list) else each.xs)]
        for each in elements:
            (each if isinstance(each, list) else each.xs).append(-1)
        yield key, context.window().start, seen


class Steals(AggregateFunction[Any, Any, Any]):
    """Keeps the row's own list as accumulator, and changes it."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        if accumulator:
            value.xs[:0] = accumulator
        return value.xs

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


def steal(a: Any, b: Any) -> Any:
    b.xs[:0] = a.xs
    return b


@pytest.mark.parametrize("lateness", [0, 60_000])
@pytest.mark.parametrize("one_batch", [False, True])
@pytest.mark.parametrize(
    "build",
    [
        lambda windows: windows.process(Takes()),
        lambda windows: windows.reduce(steal, Takes()),
        lambda windows: windows.aggregate(Steals(), "array<long>", Takes()),
    ],
    ids=["process", "reduce", "aggregate"],
)
def test_changes_in_place_stay_where_they_are(build: Any, one_batch: bool, lateness: int) -> None:
    """Not in other windows of the row, nor in later firings, however rows come."""
    sliding = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))
    harness = KeyedProcessHarness(
        build(window(sliding).allowed_lateness(lateness)),
        LISTS,
        "key",
        "key string, start long, seen array<long>",
        event_time="time",
    )
    rows = [("a", [1], at(6000)), ("a", [2], at(7000)), ("a", [3], at(11_000))]
    for batch in [rows] if one_batch else [[row] for row in rows]:
        harness.process_batch(batch)
    found = harness.advance_watermark(9999)
    found += harness.advance_watermark(30_000)
    if lateness:
        late = [("a", [4], at(12_000)), ("a", [5], at(12_000))]
        for batch in [late] if one_batch else [[row] for row in late]:
            found += harness.process_batch(batch)
    check_seen(found, lateness)


def check_seen(found: list[Any], lateness: int) -> None:
    seen = [(row.start // 1000, row.seen) for row in found]
    expected = [(0, [1, 2]), (5, [1, 2, 3]), (10, [3])]
    if lateness:
        expected += [(5, [1, 2, 3, 4]), (10, [3, 4]), (5, [1, 2, 3, 4, 5]), (10, [3, 4, 5])]
    assert sorted(seen) == sorted(expected)


@pytest.mark.parametrize(
    "build", [by_list, by_reduce, by_aggregate], ids=["process", "reduce", "aggregate"]
)
def test_a_window_that_began_in_the_micro_batch_of_its_end_fires_once(build: Any) -> None:
    """Also by new rules."""
    plain = build(window(TUMBLING))
    late = build(window(TUMBLING).allowed_lateness(60_000))
    for before, after in ((plain, late), (late, plain), (late, late)):
        harness = harness_of(before)
        assert harness.process_batch([("a", 1, at(5000))], watermark=20_000) == [("a", 1, 0, 9999)]
        harness = KeyedProcessHarness.restore(harness.snapshot(), after)
        assert harness.process_batch([]) == []
        assert harness.advance_watermark(200_000) == []
        assert harness.num_keys == 0


class Clears(Total):
    """Has a state of each window, which only ``clear`` removes."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.window_state().get_state(ValueStateDescriptor("seen", "long"))

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        self.seen.update(1)
        yield from super().process(key, context, elements)

    def clear(self, context: Any) -> None:
        self.seen.clear()


@pytest.mark.parametrize("purging", [False, True])
def test_states_of_windows_that_a_shorter_lateness_ends(purging: bool) -> None:
    trigger = EventTimeTrigger.create()
    late = window(TUMBLING).allowed_lateness(60_000)
    if purging:
        late = late.trigger(PurgingTrigger.of(trigger))
    harness = harness_of(late.aggregate(Sum(), "long", Clears()))
    harness.process_batch([("a", 1, at(5000)), ("a", 2, at(25_000))])
    assert len(harness.advance_watermark(20_000)) == 1
    plain = window(TUMBLING).aggregate(Sum(), "long", Clears())
    harness = KeyedProcessHarness.restore(harness.snapshot(), plain)
    assert harness.advance_watermark(40_000) == [("a", 2, 20_000, 29_999)]
    assert harness.advance_watermark(200_000) == []
    assert harness.num_keys == 0


def test_windows_by_the_clock_go_on_by_new_triggers() -> None:
    by_clock = window(TumblingProcessingTimeWindows.of(10_000))
    often = ContinuousProcessingTimeTrigger.of(3000)
    rules = [by_clock, by_clock.trigger(often), by_clock.trigger(CountTrigger.of(100))]
    for build in (by_list, by_reduce, by_aggregate):
        for before in rules:
            for after in rules:
                harness = harness_of(build(before))
                harness.process(("a", 1, None), 1000)
                harness = KeyedProcessHarness.restore(harness.snapshot(), build(after))
                fires = [0, 1][before is after is rules[1]]
                for clock in (4000, 6500, 9200):
                    assert len(harness.set_processing_time(clock)) == fires
                fires = [1, 0][after is rules[2]]
                assert len(harness.set_processing_time(9999)) == fires
                assert harness.set_processing_time(30_000) == []
                assert "CountTrigger" in str(after._trigger) or harness.num_keys == 0


def test_a_session_that_grows_past_its_end_fires_once_for_a_late_row() -> None:
    sessions = window(EventTimeSessionWindows.with_gap(3000)).allowed_lateness(20_000)
    harness = harness_of(by_aggregate(sessions.trigger(ContinuousEventTimeTrigger.of(2000))))
    harness.process(("a", 1, None), 1000)
    assert [row.total for row in harness.advance_watermark(3999)] == [1, 1]
    harness.advance_watermark(9000)
    # Both of its ends are past: it fires for the row, and not again without one.
    assert harness.process(("a", 2, None), 3000) == [("a", 3, 1000, 5999)]
    assert harness.advance_watermark(9500) == []
    assert harness.advance_watermark(60_000) == []
    assert harness.num_keys == 0


class Again(EventTimeTrigger):
    """Sets a timer at its own time, and one before it, whenever one fires."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.register_event_time_timer(timestamp)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        if time < window.max_timestamp():
            ctx.register_event_time_timer(time)
            ctx.register_event_time_timer(time + 3)
        return TriggerResult.FIRE


@pytest.mark.parametrize("build", [by_aggregate, by_list])
def test_a_timer_that_a_trigger_sets_at_its_own_time_waits_for_the_next_micro_batch(
    build: Any,
) -> None:
    harness = harness_of(build(window(TUMBLING).trigger(Again())))
    # 5 sets itself, which waits, and 8, which fires.
    assert len(harness.process_batch([("a", 1, at(5))], watermark=9)) == 2
    # 5 and 8 set themselves again; 5 sets 8 before, which is set.
    assert len(harness.process_batch([])) == 2
    assert len(harness.advance_watermark(12)) == 3
    assert len(harness.advance_watermark(20_000)) > 3
    assert harness.advance_watermark(30_000) == []
