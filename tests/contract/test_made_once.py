"""An input row is made once by its class; whatever was kept is restored from its fields."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any

import keystate
import pytest
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    AsyncKeyedProcessFunction,
    CheckpointedFunction,
    DeclarationError,
    FunctionError,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    Time,
    ValueStateDescriptor,
)
from keystate._compiled import NATIVE, plain
from keystate._spec.specs import resolve_type
from keystate._types.codec import struct_codec
from keystate._worker.calls import row_loops
from keystate.testing import KeyedProcessHarness, KeyedTwoInputHarness, rows_of
from keystate.windows import (
    CountTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
    window,
)

SCHEMA, OUTPUT = "sensor string, temp double", "sensor string, temps array<double>"


def celsius(fahrenheit: float) -> float:
    if fahrenheit < -459.67:
        raise ValueError(f"there is no {fahrenheit} F")
    return round((fahrenheit - 32) / 1.8, 1)


@dataclass
class Plain:
    sensor: str
    temp: float

    def __post_init__(self) -> None:
        self.temp = celsius(self.temp)


@dataclass(frozen=True)
class Frozen:
    sensor: str
    temp: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "temp", celsius(self.temp))


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    sensor: str
    temp: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "temp", celsius(self.temp))


@dataclass(slots=True, kw_only=True)
class Slots:
    sensor: str
    temp: float

    def __post_init__(self) -> None:
        self.temp = celsius(self.temp)


@dataclass
class Sensor:
    sensor: str


@dataclass
class Derived(Sensor):
    temp: float = 0.0

    def __post_init__(self) -> None:
        self.temp = celsius(self.temp)


@dataclass
class OwnInit:
    sensor: str
    temp: float

    def __init__(self, sensor: str, temp: float) -> None:
        self.sensor, self.temp = sensor, celsius(temp)


@dataclass
class WithInitVar:
    sensor: str
    scale: InitVar[float] = 1.8
    temp: float = 0.0

    def __post_init__(self, scale: float) -> None:
        assert scale == 1.8
        self.temp = celsius(self.temp)


@dataclass
class OwnSet:
    sensor: str
    temp: float

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, celsius(value) if name == "temp" else value)


CLASSES = [Plain, Frozen, FrozenSlots, Slots, Derived, OwnInit, WithInitVar, OwnSet]


class Highest(AggregateFunction):
    """Of which the accumulator is an object."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def merge(self, a: Any, b: Any) -> Any:
        return b

    def get_result(self, accumulator: Any) -> Any:
        return accumulator.sensor, [accumulator.temp]


class Keeps(KeyedProcessFunction):
    """Keeps rows in states of all kinds, and emits what they gave before, and the row."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls

    def open(self, ctx: Any) -> None:
        cls = self.cls
        self.value = ctx.get_state(ValueStateDescriptor("value", cls))
        self.list = ctx.get_list_state(ListStateDescriptor("list", cls))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "int", cls))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "int", cls))
        self.reduced = ctx.get_reducing_state(
            ReducingStateDescriptor("reduced", lambda a, b: b, cls)
        )
        self.highest = ctx.get_aggregating_state(
            AggregatingStateDescriptor("highest", Highest(), cls)
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        assert type(row) is self.cls
        kept = [self.value.value(), self.reduced.get(), *self.list, *self.map.values()]
        kept += [*self.sorted.values()]
        assert all(each is None or type(each) is self.cls for each in kept)
        temps = {each.temp for each in kept if each is not None}
        temps |= {temp for _, found in filter(None, [self.highest.get()]) for temp in found}
        yield row.sensor, [row.temp, *temps]
        self.value.update(row)
        self.list.update([row])
        self.map[0] = self.sorted[0] = row
        self.reduced.add(row)
        self.highest.add(row)


class Async(AsyncKeyedProcessFunction):
    def __init__(self, cls: Any) -> None:
        self.keeps = Keeps(cls)

    def open(self, ctx: Any) -> None:
        self.keeps.open(ctx)

    async def process_element(self, row: Any, ctx: Any) -> Any:
        for result in self.keeps.process_element(row, ctx):
            yield result


class Operator(Keeps, CheckpointedFunction):
    """Keeps rows in operator state."""

    def open(self, ctx: Any) -> None:
        """All is in operator state."""

    def initialize_state(self, ctx: Any) -> None:
        store = ctx.get_operator_state_store()
        self.kept = store.get_list_state(ListStateDescriptor("kept", self.cls))
        self.last = list(self.kept.get())

    def snapshot_state(self, ctx: Any) -> None:
        self.kept.update(self.last)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.sensor, [row.temp, *(each.temp for each in self.last)]
        self.last = [row]


class All(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, [each.temp for each in elements]


def emit(row: Any) -> Any:
    return row.sensor, [row.temp]


TEN = Time.seconds(10)
EVERY_SECOND, ONE = (PurgingTrigger.of(CountTrigger.of(count)) for count in (2, 1))
#: By name: the function of a class, and what it emits of 212, 32 and 50 degrees.
STATES = [("a", [100.0]), ("a", [0.0, 100.0]), ("a", [10.0, 0.0])]
PLACES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "states": (Keeps, STATES),
    "async": (Async, STATES),
    "operator state": (Operator, STATES),
    "count window": (
        lambda cls: window(GlobalWindows.create()).trigger(EVERY_SECOND).process(All()),
        [("a", [100.0, 0.0])],
    ),
    "tumbling": (
        lambda cls: window(TumblingProcessingTimeWindows.of(TEN)).process(All()),
        [("a", [100.0, 0.0, 10.0])],
    ),
    "sliding": (
        lambda cls: window(SlidingProcessingTimeWindows.of(TEN, Time.seconds(5))).process(All()),
        [("a", [100.0, 0.0, 10.0])] * 2,
    ),
    "session": (
        lambda cls: window(ProcessingTimeSessionWindows.with_gap(TEN)).process(All()),
        [("a", [100.0, 0.0, 10.0])],
    ),
    "tumbling aggregate": (
        lambda cls: window(TumblingProcessingTimeWindows.of(TEN)).aggregate(Highest(), cls),
        [("a", [10.0])],
    ),
    "session aggregate": (
        lambda cls: window(ProcessingTimeSessionWindows.with_gap(TEN)).aggregate(Highest(), cls),
        [("a", [10.0])],
    ),
    "tumbling reduce": (
        lambda cls: window(TumblingProcessingTimeWindows.of(TEN)).reduce(lambda a, b: a, All()),
        [("a", [100.0])],
    ),
}


@pytest.fixture(params=["native", "plain"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the loops that are compiled, and those in Python."""
    if request.param == "native":
        if NATIVE is None:
            pytest.skip("nothing is compiled")
        return
    of_python = {
        row_loops.call_with_context: plain.call_with_context,
        row_loops.call_with_row: plain.call_with_row,
    }
    for style, loop in list(row_loops.LOOPS.items()):
        monkeypatch.setitem(row_loops.LOOPS, style, of_python.get(loop, loop))


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("place", PLACES)
def test_rows_are_made_once(place: str, cls: Any) -> None:
    make, expected = PLACES[place]
    for size in (3, 1):
        harness = KeyedProcessHarness(make(cls), SCHEMA, "sensor", OUTPUT, row_type=cls)
        emitted: list[Any] = []
        given = iter([("a", temp) for temp in (212.0, 32.0, 50.0)])
        while batch := list(itertools.islice(given, size)):
            emitted += harness.process_batch(batch)
            harness = KeyedProcessHarness.restore(harness.snapshot(), make(cls))
        emitted += harness.set_processing_time(10**9)
        assert emitted == expected, size


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("cls", CLASSES)
def test_in_functions_of_each_style(cls: Any) -> None:
    def check(row: Any) -> Any:
        assert type(row) is cls
        return row

    streams: list[tuple[Callable[[Any], Any], list[Any]]] = [
        (lambda s: s.map(lambda r: emit(check(r)), OUTPUT), [("a", [100.0]), ("a", [0.0])]),
        (lambda s: s.flat_map(lambda r: [emit(check(r))], OUTPUT), [("a", [100.0]), ("a", [0.0])]),
        (lambda s: s.filter(lambda r: check(r).temp > 0), [("a", 100.0)]),
        (lambda s: s.reduce(lambda a, b: check(a) if check(b) else b), [("a", 100.0)] * 2),
    ]
    for build, expected in streams:
        operator = build(keystate.keyed(rows_of(SCHEMA), "sensor", row_type=cls))
        for size in (1, 2):
            harness = KeyedProcessHarness.of(operator)
            given = [("a", 212.0), ("a", 32.0)]
            batches = [given[at : at + size] for at in range(0, 2, size)]
            emitted = [row for batch in batches for row in harness.process_batch(batch)]
            assert emitted == expected


class Both(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield emit(row)

    process_element2 = process_element1


DEAD = OutputTag("dead", keystate.dead_letter_schema(SCHEMA))
GIVEN = [("a", 212.0), ("a", -500.0), ("b", -600.0), ("a", 32.0)]
RIGHT = [("a", [100.0]), ("a", [0.0])]
REFUSED = [("a", -500.0), ("b", -600.0)]


class Emits(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield emit(row)


class EmitsLater(AsyncKeyedProcessFunction):
    async def process_element(self, row: Any, ctx: Any) -> Any:
        yield emit(row)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "make",
    [Emits, EmitsLater, lambda: window(GlobalWindows.create()).trigger(ONE).process(All())],
    ids=["rows", "async", "windows"],
)
def test_a_row_that_its_class_refuses_is_the_rows_error(make: Any, cls: Any) -> None:
    shared: dict[str, Any] = {"row_type": cls, "side_outputs": [DEAD]}
    harness = KeyedProcessHarness(
        make(), SCHEMA, "sensor", OUTPUT, on_error=keystate.dead_letters(DEAD), **shared
    )
    assert harness.process_batch(GIVEN) == RIGHT
    letters = harness.side_output(DEAD)
    assert sorted(tuple(letter.row) for letter in letters) == sorted(REFUSED)
    assert {letter.key for letter in letters} == {'"a"', '"b"'}
    assert {(letter.error, letter.message[:11]) for letter in letters} == {
        ("ValueError", "there is no")
    }
    harness = KeyedProcessHarness(make(), SCHEMA, "sensor", OUTPUT, **shared)
    for row in REFUSED:
        message = rf"there is no {row[1]} F[\s\S]*in __\w+__[\s\S]*key '{row[0]}', row .*{row[1]}"
        with pytest.raises(FunctionError, match=message):
            harness.process_batch([("a", 1.0), row, ("a", 2.0)])


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("cls", CLASSES)
def test_with_two_inputs(cls: Any) -> None:
    first, second = (keystate.keyed(rows_of(SCHEMA), "sensor", row_type=cls) for _ in range(2))
    letters = keystate.dead_letters(DEAD)
    stream = first.connect(second).process(Both(), OUTPUT, on_error=letters)
    harness = KeyedTwoInputHarness.of(stream, side_outputs=[DEAD])
    assert harness.process_batch(GIVEN, GIVEN) == RIGHT * 2
    found = [(letter.input, tuple(letter.row)) for letter in harness.side_output(DEAD)]
    assert sorted(found) == sorted((n, row) for n in (1, 2) for row in REFUSED)


@dataclass
class Parts:
    sensor: str
    temp: list[Plain]
    by: dict[str, Frozen]
    one: Slots | None
    pair: tuple[float, ...]


def test_objects_in_objects() -> None:
    schema = struct_codec(*resolve_type(Parts, "Parts")).data_type

    def process(row: Parts, ctx: Any) -> Iterator[Any]:
        assert (type(row), type(row.temp[0]), type(row.by["x"])) == (Parts, Plain, Frozen)
        assert row.one is not None
        assert (type(row.one), row.one.temp, row.pair) == (Slots, 10.0, (1.0,))
        yield row.sensor, [row.temp[0].temp, row.by["x"].temp]

    harness = KeyedProcessHarness(process, schema, "sensor", OUTPUT, row_type=Parts)
    row = ("a", [("b", 212.0)], {"x": ("c", 32.0)}, ("d", 50.0), [1.0])
    assert harness.process(row) == [("a", [100.0, 0.0])]


@dataclass
class Computed:
    """What __post_init__ computes is kept only in a field."""

    name: str
    tags: list[str] = field(default_factory=lambda: ["new"])
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.count = len(self.name)


def test_fields_that_init_does_not_take() -> None:
    of = struct_codec(*resolve_type(Computed, "Computed"))
    value = Computed("abc")
    value.count = 7
    for read in (of.as_read(value), of.copy(value), *of.decode(of.encode([value]))):
        assert read == value
        assert read is not value
    assert of.as_read(("abc", None, 5)).tags is None
    with pytest.raises(DeclarationError, match="Computed can't be made from its fields"):
        keystate.keyed(
            rows_of("name string, tags array<string>, count long"), "name", row_type=Computed
        )


@dataclass
class Numbers:
    """As a class without code of its own is made."""

    a: int
    b: list[int] = field(default_factory=list)


@pytest.mark.parametrize("cls, runs_code", [*((c, True) for c in CLASSES), (Numbers, False)])
def test_which_classes_run_code(cls: Any, runs_code: bool) -> None:
    assert struct_codec(*resolve_type(cls, "a class")).runs_code is runs_code


def test_what_would_make_an_object_twice_is_refused() -> None:
    harness = KeyedProcessHarness(Emits(), SCHEMA, "sensor", OUTPUT, row_type=Plain)
    with pytest.raises(TypeError, match="Plain has made this object, and would make it once more"):
        harness.process(Plain("a", 212.0))
