"""More mistakes: each is told clearly, and none harms the checkpoint."""

from __future__ import annotations

import dataclasses
import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keystate
import pytest
from keystate import (
    AsyncKeyedProcessFunction,
    CheckpointedFunction,
    DeclarationError,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    StateTtlConfig,
    StateTypeError,
    ValueStateDescriptor,
)
from keystate._spec.specs import resolve_state
from keystate.testing import KeyedProcessHarness
from keystate.windows import ProcessWindowFunction
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import types as T

INT = T.IntegerType()


class Does(KeyedProcessFunction):
    """Does something with one state of each kind."""

    def __init__(self, action: Callable[[Any], Any]) -> None:
        self.action = action

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "a int not null, b string"))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "date"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "int", "array<double>"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.x:
            self.action(self)
        yield row.key


MISFITS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "list None": (lambda f: f.list.add(None), ["state 'list' of key 'k1'", "can't hold None"]),
    "list of None": (lambda f: f.list.update([None]), ["state 'list' of key 'k1'", "None"]),
    "list element": (lambda f: f.list.add("2024"), ["'list'", "'k1'", "expected date, got str"]),
    "map None": (lambda f: f.map.put(None, []), ["state 'map' of key 'k1'", "the key None"]),
    "map key": (lambda f: f.map.put("1", []), ["'map'", "'k1'", "expected int, got str '1'"]),
    "map get": (lambda f: f.map.get("1"), ["'map'", "'k1'", "expected int, got str '1'"]),
    "map value": (
        lambda f: f.map.put(1, ["x"]),
        ["'map'", "'k1'", "expected double at an element of the array, got str 'x'"],
    ),
    "no field": (lambda f: f.value.update({"z": 1}), ["'value'", "'k1'", "has no field 'z'"]),
    "null field": (lambda f: f.value.update({"b": ""}), ["expected int, not null, at field 'a'"]),
    "field": (lambda f: f.value.update((True, "")), ["field 'a', got bool True"]),
}


@pytest.mark.parametrize("case", MISFITS)
def test_misfits_name_state_and_key(case: str) -> None:
    action, messages = MISFITS[case]
    with KeyedProcessHarness(Does(action), "key string, x boolean", "key", "key string") as harness:
        harness.process(("k0", False))
        with pytest.raises(StateTypeError) as raised:
            harness.process(("k1", True))
    for message in messages:
        assert message in str(raised.value)


# What comes with the rows makes a difference to maps alone.
@pytest.mark.parametrize(
    "case, inline", [("list element", "1000"), ("map get", "1000"), ("map value", "0")]
)
def test_misfits_in_a_query(
    spark: Any, case: str, inline: str, settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.worker.inlineEntries": inline})
    action, messages = MISFITS[case]
    rows = [("k0", False), ("k1", True), ("k2", False)]
    df = spark.createDataFrame(rows, "key string, x boolean").coalesce(1)
    with pytest.raises(PythonException) as failure:
        keystate.keyed(df, "key").process(Does(action), "key string").collect()
    assert "StateTypeError" in str(failure.value)
    for message in messages:
        assert message in str(failure.value)


class Count(KeyedProcessFunction):
    """Counts in a state of some type, and may have another state."""

    def __init__(self, kind: str = "long", other: str | None = None, one: Any = 1) -> None:
        self.kind, self.other, self.one = kind, other, one

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", self.kind))
        if self.other is not None:
            self.more = ctx.get_list_state(ListStateDescriptor("more", self.other))

    def process_element(self, row: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + self.one
        self.count.update(count)
        if self.other is not None:
            self.more.add(count)
        yield row.key, int(count)


def counts(fn: Any, **keyed: Any) -> Callable[[Any], Any]:
    return lambda df: keystate.keyed(df, "key", **keyed).process(fn, "key long, count long")


def test_too_many_partitions(stream: Callable[..., Any]) -> None:
    """The first start decides nothing when it fails."""
    fed = stream("key long")
    fed.feed([(1,)])
    with pytest.raises(StreamingQueryException, match="KEYSTATE_PARALLELISM_TOO_HIGH"):
        fed.run(counts(Count(), max_parallelism=1))
    assert [tuple(row) for row in fed.run(counts(Count(), max_parallelism=2))] == [(1, 1)]


def test_states_come_and_go(stream: Callable[..., Any]) -> None:
    fed = stream("key long")
    emitted = []
    for fn in (Count(), Count(other="long"), Count(), Count(other="long")):
        fed.feed([(1,)])
        emitted += fed.run(counts(fn))
    assert [tuple(row) for row in emitted] == [(1, 1), (1, 2), (1, 3), (1, 4)]


def test_a_result_without_a_python_value(spark: Any) -> None:
    df = spark.sql("SELECT 1L AS key")
    with pytest.raises(DeclarationError, match=r"column 'v' of the output schema.*not supported"):
        keystate.keyed(df, "key").process(Count(), "v variant")


@dataclass
class Mutable:
    a: int


@dataclass
class Itself:
    a: int
    more: list[Itself]


@dataclass
class Abstract(ABC):
    a: int

    @abstractmethod
    def b(self) -> int: ...


@dataclass
class Untyped:
    a: Any


def local_class() -> type:
    @dataclass
    class Inner:
        a: Nowhere  # type: ignore[name-defined]  # noqa: F821

    return Inner


@pytest.mark.parametrize(
    "descriptor, message",
    [
        (MapStateDescriptor("s", Mutable, INT), "Mutable have no hash.*frozen=True"),
        (ValueStateDescriptor("s", Itself), "Itself contains itself"),
        (ValueStateDescriptor("s", Abstract), "Abstract makes no object without arguments"),
        (ValueStateDescriptor("s", local_class()), "the fields of Inner have no types.*Nowhere"),
        (ValueStateDescriptor("s", Untyped), "field a: no Spark type is known for typing.Any"),
        (ValueStateDescriptor("s", complex), "expected a DDL string.*got <class 'complex'>"),
        (ValueStateDescriptor("s", T.CalendarIntervalType()), "interval is not supported"),
        (MapStateDescriptor("s", T.MapType(INT, INT), INT), "has no order"),
        (MapStateDescriptor("s", T.StringType("UTF8_LCASE"), INT), "can't be or be in a key"),
        (ValueStateDescriptor("s", T.LongType(), default="x"), "default of state 's': expected"),
    ],
)
def test_declared_types(descriptor: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as caught:
        resolve_state(descriptor)
    assert "'s'" in str(caught.value)


@dataclass(frozen=True)
class Key:
    a: int
    b: tuple[str, ...] = ()


@dataclass
class Value:
    key: Key
    maybe: int | None = None
    other: list[Key] = dataclasses.field(default_factory=list)


class Counts(CheckpointedFunction, KeyedProcessFunction):
    """Its operator state would expire."""

    def initialize_state(self, ctx: Any) -> None:
        ctx.get_operator_state_store().get_list_state(expiring(ListStateDescriptor("n", "int")))

    def snapshot_state(self, ctx: Any) -> None: ...

    def process_element(self, row: Any, ctx: Any) -> Any: ...


def expiring(descriptor: Any) -> Any:
    """The descriptor with a time to live."""
    ttl = StateTtlConfig.new_builder(datetime.timedelta(hours=1)).build()
    descriptor.enable_time_to_live(ttl)
    return descriptor


def test_only_keyed_state_expires(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream("key string")
    with pytest.raises(DeclarationError, match=r"'n' has a time to live, and operator state can't"):
        fed.run(lambda df: keystate.keyed(df, "key").process(Counts(), "n int"))
    with pytest.raises(DeclarationError, match=r"'rules' has a time to live, and broadcast state"):
        keystate.broadcast(spark.range(1), expiring(MapStateDescriptor("rules", "string", "int")))


def test_dataclasses_are_plain_to_users() -> None:
    """What the checks above do not refuse."""

    spec = resolve_state(MapStateDescriptor("s", Key, Value))
    assert spec.key_type.simpleString() == "struct<a:bigint,b:array<string>>"  # type: ignore
    codec = spec.value_codec()
    values = [Value(Key(1, ("x",))), Value(Key(2), 3, [Key(4)])]
    assert codec.decode(codec.encode(values)) == values


WITHOUT_VALUES = (
    "SELECT id % 2 AS k, parse_json('{\"a\": 1}') AS v, interval '1' year AS y, "
    "array(parse_json('2')) AS vs, id FROM range(4)"
)


def look(row: Any, ctx: Any) -> Any:
    assert (row.k, row[4], len(row)) == (row.id % 2, row.id, 5)
    yield row.id


def test_columns_without_python_values_are_no_obstacle(spark: Any) -> None:
    rows = spark.sql(WITHOUT_VALUES)
    keyed, plain = keystate.keyed(rows, "k"), keystate.stream(rows)
    batches = lambda batch, ctx: {"id": batch.rows["id"]}  # noqa: E731
    made = [
        keyed.process(look, "id long"),
        keyed.map(lambda row: row.id, "id long"),
        keyed.process_batches(batches, "id long"),
        plain.flat_map(lambda row: [row.id], "id long"),
        keyed.process(Late(), "id long"),
        keyed.connect(keyed).process(OfTwo(), "id long").distinct(),
    ]
    for df in made:
        assert sorted(row.id for row in df.collect()) == [0, 1, 2, 3]


class Late(AsyncKeyedProcessFunction):
    async def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.id


class All(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield len(elements)


class OfTwo(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield row.id

    process_element2 = process_element1


@pytest.mark.parametrize(
    "look, message",
    [
        (lambda row: str(row.v), "column 'v' is of type variant, which has no Python value"),
        (lambda row: row.v["a"], "column 'v' is of type variant, which has no Python value"),
        (lambda row: row.y > 1, "column 'y' is of type interval year, which has no Python value"),
        (lambda row: list(row.vs), "column 'vs' is of type array<variant>, which has no Python"),
        (lambda row: row.v, "expected string at field 's', got NotGiven <variant>"),
    ],
)
def test_a_function_that_looks_at_them(spark: Any, look: Any, message: str) -> None:
    rows = spark.sql(WITHOUT_VALUES)
    dead = OutputTag("dead", keystate.dead_letter_schema())
    keyed = keystate.keyed(rows, "k")
    with pytest.raises(PythonException, match=f"(?s){message}"):
        keyed.map(look, "s string").collect()
    letters = keyed.map(look, "s string", on_error=keystate.dead_letters(dead)).side_output(dead)
    found = letters.collect()
    assert len(found) == 4
    assert all(message in letter.message for letter in found)
    assert '"v": null' in found[0].row


@pytest.mark.parametrize(
    "make",
    [
        lambda df: keystate.keyed(df, "v").map(lambda row: 1, "n long"),
        lambda df: keystate.keyed(df, "k").filter(lambda row: True),
        lambda df: keystate.keyed(df, "k").reduce(lambda a, b: a),
        lambda df: keystate.keyed(df, "k").count_window(2).reduce(lambda a, b: a),
        lambda df: keystate.keyed(df, "k").count_window(2).process(All(), "n long"),
        lambda df: keystate.keyed(df, "k").process(look, df.schema),
    ],
)
def test_where_values_are_needed_they_are_refused(spark: Any, make: Any) -> None:
    with pytest.raises(DeclarationError, match="type variant is not supported"):
        make(spark.sql(WITHOUT_VALUES))
