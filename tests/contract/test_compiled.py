"""What is compiled gives what Python gives: the same values and errors, and no object is lost."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterator
from decimal import Decimal
from importlib import import_module, util
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keystate import MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from keystate._compiled import plain
from keystate._spec.specs import StateSpec
from keystate._types.codec import structs
from keystate._types.codec.factory import struct_codec
from keystate._types.codec.rows import row_class
from keystate._types.ddl import parse_ddl
from keystate._worker.state import maps as map_state
from keystate._worker.state import values as states
from pyspark.sql import types as T

from tests.attributes import Attributes

COMPILED = util.find_spec("keystate._compiled.native") is not None
COMPILER = shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0])
HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()


@pytest.mark.skipif(
    COMPILER is None or not HEADERS, reason="there is no C compiler, or no Python.h"
)
@pytest.mark.skipif(os.environ.get("KEYSTATE_NATIVE") == "0", reason="it is not wanted")
def test_it_is_compiled_where_a_compiler_is() -> None:
    assert COMPILED, "make install compiles it"


native: Any = import_module("keystate._compiled.native") if COMPILED else None
BOTH = [plain, native] if COMPILED else [plain]
with_both = pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
ROW = row_class(("a", "b"))


def shown(value: Any) -> Any:
    """A value with the classes of all its parts."""
    if isinstance(value, tuple):
        return type(value), [shown(part) for part in value]
    return type(value), repr(value)


def told(call: Callable[[], Any]) -> Any:
    """What a call returns or raises."""
    try:
        return shown(call())
    except Exception as e:
        return type(e), str(e)


# -- rows ------------------------------------------------------------------------------------------


@with_both
@given(st.integers(1, 5).flatmap(lambda w: st.lists(st.tuples(*[st.integers()] * w), max_size=9)))
def test_rows_of_columns(tuples: list[tuple[int, ...]]) -> None:
    columns = [list(column) for column in zip(*tuples)] or [[]]
    cls = row_class(tuple(f"f{i}" for i in range(len(columns))))
    assert shown(tuple(plain.make_rows(cls, columns))) == shown(
        tuple(native.make_rows(cls, columns))
    )


@with_both
def test_rows_are_found_by_equal_ones() -> None:
    """Since Python 3.14 a tuple keeps its hash: one that nobody made must not be taken for it."""
    rows = native.make_rows(ROW, [[1, 2], ["x", "y"]])
    rows.append(native.RowReader(ROW, tuple, (plain.Field(int, int, True, 0, 9),) * 2)((3, 4)))
    assert [hash(row) for row in rows] == [hash(tuple(row)) for row in rows]


@with_both
def test_rows_are_tuples() -> None:
    """Values are put into them as into a tuple's memory."""
    for cls in (object, list, type("Small", (), {"__slots__": ()})):
        with pytest.raises(TypeError, match="rows are tuples"):
            native.make_rows(cls, [[1, 2], ["x", "y"]])


@with_both
def test_columns_may_change_while_rows_are_made() -> None:
    """Up to Python 3.11 any new object can start the garbage collector, and so a user's code."""
    columns: list[list[Any]] = [[object() for _ in range(2000)] for _ in range(2)]

    class Circle:
        def __del__(self) -> None:
            columns.pop().clear()

    circle: Any = Circle()
    circle.itself = circle
    del circle
    usual = gc.get_threshold()
    gc.set_threshold(1)
    try:
        made = native.make_rows(ROW, columns)
    except ValueError as e:
        assert "must not change" in str(e)
    else:
        assert len(made) == 2000
    finally:
        gc.set_threshold(*usual)


@with_both
def test_chains_of_any_length_are_freed() -> None:
    """One by one, not each within the one before: C's stack would end."""

    def with_row(last: Any) -> Any:
        cursor = native.Cursor()
        cursor.row = last
        return cursor

    for longer in (with_row, lambda last: native.RowReader(ROW, last, ())):
        last: Any = None
        for _ in range(300_000):
            last = longer(last)
        del last


def test_without_the_global_lock_it_is_python() -> None:
    code = (
        "import sys; sys._is_gil_enabled = lambda: False; import keystate._compiled as c; "
        "print(c.NATIVE, c.Cursor.__module__)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["None", "keystate._compiled.plain"]


@with_both
def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="same length"):
        native.make_rows(ROW, [[1, 2], [3]])


FIELDS = {
    "long": [0, 1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**80],
    "int": [2**31 - 1, -(2**31), 2**31],
    "short": [7, 2**15],
    "byte": [-128, 128],
    "double": [1.5, 3, float("inf"), "x"],
    "float": [0.1, 1e300],
    "boolean": [True, 1],
    "string": ["", "ä", b"x"],
    "binary": [b"x", bytearray(b"y")],
    "decimal(5,2)": [Decimal("1.50"), 1],
    "array<long>": [[1, 2], (3,), [2**70]],
    "struct<x: long>": [(1,), {"x": 2}, (1, 2)],
}


class Int(int):
    """Not just an int."""


ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.just(Int(5)),
    *(st.sampled_from(values) for values in FIELDS.values()),
)


@with_both
@settings(max_examples=300, deadline=None)
@given(st.data(), st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=4))
def test_rows_of_tuples(data: st.DataObject, kinds: list[str]) -> None:
    nullable = data.draw(st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds)))
    fields = [
        T.StructField(f"f{i}", parse_ddl(kind), null)
        for i, (kind, null) in enumerate(zip(kinds, nullable))
    ]
    usual = [st.sampled_from(FIELDS[kind]) | ANY for kind in kinds]
    row = data.draw(st.tuples(*usual) | st.lists(ANY, max_size=5).map(tuple))
    answers = []
    for reader in (plain.row_reader, native.RowReader):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(structs, "row_reader", reader)
            as_read = struct_codec(T.StructType(fields)).tuple_as_read
        answers.append(told(lambda: as_read(row)))  # noqa: B023
    assert answers[0] == answers[1]


@with_both
@settings(max_examples=300, deadline=None)
@given(st.data(), st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3))
def test_results_are_taken(data: st.DataObject, kinds: list[str]) -> None:
    """Both take the same results as they are, and none of these changes or can't be encoded."""
    nullable = data.draw(st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds)))
    fields = [
        T.StructField(f"f{i}", parse_ddl(kind), null)
        for i, (kind, null) in enumerate(zip(kinds, nullable))
    ]
    usual = st.tuples(*[st.sampled_from(FIELDS[kind]) | ANY for kind in kinds])
    result = data.draw(usual | ANY | st.lists(ANY, max_size=3).map(tuple))
    looked = object()
    answers = []
    for make in (plain.row_taker, native.RowTaker):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(structs, "row_taker", make)
            codec = struct_codec(T.StructType(fields))
            answers.append(codec.taker(lambda _: looked)(result))
    assert (answers[0] is looked) == (answers[1] is looked)
    if answers[0] is not looked:
        assert answers[0] is result is answers[1]
        codec.encode([result if isinstance(result, tuple) else (result,)])
        hash(result)


# -- states ----------------------------------------------------------------------------------------


class Owner(plain.Cursor):
    """What a state needs of a context."""

    def key_of(self, slot: int) -> Any:
        return f"key {slot}"


def spec(kind: str, value_type: str, key_type: str | None = None) -> StateSpec:
    return StateSpec("s", kind, "s", parse_ddl(value_type), key_type and parse_ddl(key_type))


def opened(cls: type, described: StateSpec, descriptor: Any, module: Any) -> Any:
    """A state for two keys, with a cursor of its own."""
    cursor: Any = type("Owner", (module.Cursor,), {"key_of": Owner.key_of})()
    state: Any = cls(described, 0, cursor, descriptor)
    state.new_generation()
    empty = getattr(state, "_cell_class", lambda _: None)
    state._cells = [empty(()) for _ in range(2)]
    state._dirty = bytearray(2)
    return state


def with_base(base: str, cls: type, described: StateSpec, descriptor: Any) -> list[Any]:
    """The same state in Python and compiled."""
    classes = [type(cls.__name__, (getattr(module, base), cls), {}) for module in BOTH]
    return [opened(c, described, descriptor, module) for c, module in zip(classes, BOTH)]


def same(both: list[Any], calls: list[tuple[str, Any]]) -> None:
    """Does the same to both; each answer is the same, and what is kept at the end."""
    for name, argument in calls:
        answers = []
        for state in both:
            if name == "slot":
                state._cursor.slot = argument
            else:
                answers.append(told(lambda: getattr(state, name)(*argument)))  # noqa: B023
        assert answers[1:] == answers[:1] or not answers, (name, argument, answers)
    kept = [(shown(tuple(s._cells)), bytes(s._dirty), told(lambda: changed(s))) for s in both]  # noqa: B023
    assert kept[0] == kept[1]


def changed(state: Any) -> Any:
    return tuple((name, str(array)) for name, array in state.changes(0, 2).items())


SLOTS = st.tuples(st.just("slot"), st.sampled_from([0, 1, None]))


def calls(*names: str, values: st.SearchStrategy[Any] = ANY) -> st.SearchStrategy[Any]:
    """Some calls of methods, of which the last ones take a value."""
    each = [SLOTS]
    each += [st.tuples(st.just(n), st.tuples()) for n in names if not n.endswith("=")]
    each += [st.tuples(st.just(n.rstrip("=")), st.tuples(values)) for n in names if n.endswith("=")]
    return st.lists(st.one_of(each), max_size=20)


@with_both
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["long", "double", "string", "struct<a: long, b: string>", "array<long>"]),
    st.booleans(),
    calls(
        "value",
        "clear",
        "update=",
        values=ANY | st.tuples(st.integers(), st.none() | st.text()) | st.tuples(ANY, ANY),
    ),
)
def test_value_state(kind: str, default: bool, done: list[Any]) -> None:
    standard = {"long": 7, "struct<a: long, b: string>": (1, "x"), "array<long>": [1]}
    descriptor = ValueStateDescriptor("s", kind, default=standard.get(kind) if default else None)
    both = with_base("ValueCells", states._PlainValueState, spec("value", kind), descriptor)
    same(both, done)


class PlainReducingState(states.WorkerReducingState):
    _get, _set = states.ValueLikeState._get, states.ValueLikeState._set
    clear = states.ValueLikeState.clear


@with_both
@settings(max_examples=200, deadline=None)
@given(calls("get", "clear", "add=", values=st.integers(-(2**62), 2**62) | ANY))
def test_reducing_state(done: list[Any]) -> None:
    descriptor = ReducingStateDescriptor("s", lambda a, b: a + b, "long")
    classes = PlainReducingState, states.WorkerReducingState
    same([opened(cls, spec("value", "long"), descriptor, native) for cls in classes], done)


KEYS = st.sampled_from([None, True, 0, 1, 2**70, "a", "b", 1.0, Int(1)])


@with_both
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["long", "string", "double"]),
    st.lists(
        st.one_of(
            SLOTS,
            st.tuples(st.just("put"), st.tuples(KEYS, st.integers(0, 9) | ANY)),
            st.tuples(st.sampled_from(["get", "contains", "remove"]), st.tuples(KEYS)),
            st.tuples(st.sampled_from(["clear", "is_empty"]), st.tuples()),
        ),
        max_size=20,
    ),
)
def test_map_state(key: str, done: list[Any]) -> None:
    described = spec("map", "long", key)
    descriptor = MapStateDescriptor("s", key, "long")
    same(with_base("MapCells", map_state.PlainMapState, described, descriptor), done)


@with_both
def test_arguments_by_name() -> None:
    struct, descriptor = spec("value", "long"), ValueStateDescriptor("s", "long")
    of_value = with_base("ValueCells", states._PlainValueState, struct, descriptor)
    for state in of_value:
        state._cursor.slot = 0
        state.update(value=3)
        assert state.value() == 3
    described, descriptor = spec("map", "long", "string"), MapStateDescriptor("s", "string", "long")
    of_map = with_base("MapCells", map_state.PlainMapState, described, descriptor)
    for state in of_map:
        state._cursor.slot = 0
        state.put(key="a", value=1)
        state.put("b", value=2)
        assert state.get(key="a") == 1 and state.contains(key="b")
    for both, method, argument in [
        (of_value, "update", {"values": 1}),
        (of_value, "update", {}),
        (of_map, "put", {"key": "a"}),
        (of_map, "get", {"name": "a"}),
        (of_map, "contains", {}),
    ]:
        answers = [told(lambda: getattr(state, method)(**argument)) for state in both]  # noqa: B023
        assert answers[0] == answers[1]


@with_both
def test_a_value_may_change_while_it_becomes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to Python 3.11 any new object can start the garbage collector, and so a user's code."""
    monkeypatch.setattr(structs, "row_reader", native.RowReader)
    described = spec("value", "struct<a: long, b: string>")
    descriptor = ValueStateDescriptor("s", described.value_type)
    state = with_base("ValueCells", states._PlainValueState, described, descriptor)[1]
    state._cursor.slot = 0
    others = []

    def of(*values: Any) -> tuple[Any, ...]:
        return values  # a literal would be kept by the code

    class Circle:
        def __del__(self) -> None:
            state.update(of(2, "new"))
            others.append(of(3, "in the same place"))

    circle: Any = Circle()
    circle.itself = circle
    usual = gc.get_threshold()
    del circle
    gc.set_threshold(1)
    try:
        state.update(of(1, "old"))
    finally:
        gc.set_threshold(*usual)
    assert state.value() in [(1, "old"), (2, "new")] and len(others) <= 1


@with_both
def test_a_key_may_clear_its_map_when_it_is_compared() -> None:
    described, descriptor = spec("map", "long", "long"), MapStateDescriptor("s", "long", "long")
    state = with_base("MapCells", map_state.PlainMapState, described, descriptor)[1]
    state._cursor.slot = 0

    gone, seen = [], []

    class Watched(map_state.MapCell):
        def __del__(self) -> None:
            gone.append(self)

    class Clearing(int):
        def __eq__(self, other: object) -> bool:
            state.clear()
            seen.append(len(gone))
            return int(self) == other

        __hash__ = int.__hash__

    state._whole = Watched
    for method in (state.get, state.contains, lambda key: state.put(key, 1)):
        state._cells[0] = Watched([(Clearing(5), 7)])
        method(5)
        gone.clear()
    assert seen == [0, 0, 0]


@with_both
def test_a_state_is_garbage_with_its_cursor() -> None:
    state = with_base(
        "ValueCells",
        states._PlainValueState,
        spec("value", "long"),
        ValueStateDescriptor("s", "long"),
    )[1]
    state._cursor.row = state  # a circle
    gone = weakref.ref(state)
    del state
    gc.collect()
    assert gone() is None


@with_both
def test_a_slot_is_an_index_or_none() -> None:
    cursor = native.Cursor()
    assert cursor.slot is None and cursor.row is None
    for wrong in (-1, "x", 2**70):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            cursor.slot = wrong
    cursor.slot = 3
    assert cursor.slot == 3
    cursor.slot = None
    assert cursor.slot is None


# -- calls for each row ----------------------------------------------------------------------------


def many(row: Any, fails: bool) -> Iterator[Any]:
    yield row, 1
    if fails:
        raise KeyError(row)
    yield None
    return 5


class NoIterator:
    def __next__(self) -> None:
        raise StopIteration


class Restarting(NoIterator):
    def __iter__(self) -> Iterator[str]:
        return iter("ab")


def stopped(row: Any) -> Any:
    raise StopIteration(row)


def taker(module: Any) -> Any:
    """Takes pairs of whatever is no dict as they are, and says of all else that it looked."""
    fields = (plain.Field(None, int, True, 0, 9), plain.Field(None, str, False))
    make = plain.row_taker if module is plain else native.RowTaker
    return make(ROW, lambda result: ("looked at", result), fields)


RETURNS: dict[str, Callable[[Any], Any]] = {
    "none": lambda row: None,
    "one": lambda row: (row, 1),
    "list": lambda row: [row, None],
    "generator": lambda row: many(row, False),
    "failing generator": lambda row: many(row, True),
    "iterator": lambda row: iter((row, row)),
    "map": lambda row: map(str, (row, row)),
    "string": lambda row: "abc",
    "dict": lambda row: {"a": row},
    "error": lambda row: 1 // 0,
    "stopped": stopped,
    "attributes": lambda row: Attributes(a=row),
    "class": lambda row: NoIterator,
    "no iterator": lambda row: NoIterator(),
    "restarting": lambda row: Restarting(),
}


@with_both
@given(st.lists(st.sampled_from(sorted(RETURNS)), max_size=8), st.booleans())
def test_calls_for_each_row(kinds: list[str], with_context: bool) -> None:
    answers = []
    for module in BOTH:
        context, results, seen = module.Cursor(), ["before"], []

        def call(row: Any, *rest: Any) -> Any:
            seen.append((context.slot, context.row, rest == (context,)))  # noqa: B023
            return RETURNS[row[1]](row)

        loop = module.call_with_context if with_context else module.call_with_row
        take = taker(module)
        rows = list(enumerate(kinds))
        error = told(lambda: loop(call, context, iter(range(len(kinds))), rows, take, results))  # noqa: B023
        answers.append((error, results, seen, context.slot, context.row))
    assert answers[0] == answers[1]


@with_both
@pytest.mark.parametrize("more", [0, 1])
def test_marks_put_back(more: int) -> None:
    answers = []
    for module in BOTH:
        cells, dirty = ["a", "b", "c"], bytearray([1, 0, 0])
        results, journal = ["before"], ["old"]
        marks = module.Marks(
            [2, 1, 0, 3], [(cells, dirty), *[(["x"] * 4, bytearray(4))] * more], results, journal
        )
        seen = []
        for slot in islice(marks, 2):
            seen.append((slot, marks.count, list(journal)))
            journal.append("new")
            results += ["this", "that"]
            cells[slot], dirty[slot] = "changed", 1
        marks.undo()
        marks.mark(0)
        cells[0] = "changed"
        cells.append("d")
        marks.undo()
        errors = [told(lambda: next(iter(marks)))[0] for _ in range(3)]  # noqa: B023
        answers.append((cells, list(dirty), results, journal, seen, marks.count, errors))
    assert answers[0] == answers[1]
    assert answers[0][0] == ["a", "b", "changed", "d"]
    assert answers[0][1:4] == ([1, 0, 1], ["before", "this", "that"], [])
    for wrong in ((1, [], [], []), ([], [(1, 2)], [], []), ([], [], (), []), ([], 1, [], [])):
        with pytest.raises(TypeError):
            native.Marks(*wrong)


@with_both
def test_no_object_is_lost() -> None:
    """The number of references to an object is the same after calls of every kind."""
    value, error = object(), ValueError("x")

    def usual(row: Any, context: Any) -> Any:
        return {0: [value], 1: (each for each in [value]), 2: iter([value]), 3: value}[row[0]]

    def failing(row: Any, context: Any) -> Any:
        raise error

    def undone() -> None:
        marks = native.Marks(range(2), [([value] * 2, bytearray(2))], [value], [value])
        list(marks)
        marks.undo()

    def all_kinds() -> None:
        cursor: Any = native.Cursor()
        rows = native.make_rows(ROW, [[0, 1, 2, 3], [value] * 4])
        for take in (lambda result: result, taker(native)):
            native.call_with_context(usual, cursor, range(4), rows, take, [])
            native.collect([value, value], take, [])
        with pytest.raises(ValueError):
            native.call_with_context(failing, cursor, range(4), rows, lambda result: result, [])
        for cls in (native.RowReader, native.RowTaker):
            of_row = cls(ROW, lambda row: row, (plain.Field(object, object, True),) * 2)
            for row in ((value, value), (value, 3), ROW((value, value)), value):
                told(lambda: of_row(row))  # noqa: B023
        state = with_base(
            "ValueCells",
            states._PlainValueState,
            spec("value", "long"),
            ValueStateDescriptor("s", "long"),
        )[1]
        state._plain = object
        for slot in (0, 1, None):
            state._cursor.slot = slot
            for method in (lambda: state.update(value), state.value, state.clear):
                told(method)
        maps = with_base(
            "MapCells",
            map_state.PlainMapState,
            spec("map", "long", "long"),
            MapStateDescriptor("s", "long", "long"),
        )[1]
        maps._plain = maps._key_class = object
        for slot in (0, None):
            maps._cursor.slot = slot
            told(lambda: maps.put(value, value))
            told(lambda: (maps.get(value), maps.contains(value)))
        told(undone)

    watched = [value, error, ROW, None if sys.version_info >= (3, 12) else native.RowReader]
    all_kinds()
    gc.collect()
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(50):
        error.__traceback__ = None
        all_kinds()
    error.__traceback__ = None
    gc.collect()
    after = [sys.getrefcount(each) for each in watched]
    assert [b - a for a, b in zip(before, after) if abs(b - a) >= 10] == []


def refuse(result: Any) -> Any:
    raise ValueError(result)


@with_both
def test_an_error_of_a_result_has_the_lines_that_yielded_it() -> None:
    def inner() -> Any:
        yield 1

    def outer() -> Any:
        yield from inner()

    first = inner.__code__.co_firstlineno
    for module in BOTH:
        with pytest.raises(ValueError) as failure:
            module.collect(outer(), refuse, [])
        lines = [(line, name) for _, line, name in failure.value.yielded_at]
        assert lines == [(first + 4, "outer"), (first + 1, "inner")]
        with pytest.raises(ValueError) as failure:
            module.collect([1], refuse, [])
        assert failure.value.yielded_at == []
