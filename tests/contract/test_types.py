"""Every Spark SQL type through every state, as key and as output, over restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import keystate
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql import types as T

from tests.contract.type_cases import CASES, as_key, same


class Last(AggregateFunction):
    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class EveryState(KeyedProcessFunction):
    """Writes every case's values to all states, or reads them and tells what differs."""

    def open(self, ctx: Any) -> None:
        self.states: dict[tuple[str, str], Any] = {}
        for name, case in CASES.items():
            kind = case.ddl
            states = {
                "value": ctx.get_state(ValueStateDescriptor(f"{name}_v", kind)),
                "list": ctx.get_list_state(ListStateDescriptor(f"{name}_l", kind)),
                "values": ctx.get_map_state(MapStateDescriptor(f"{name}_mv", "int", kind)),
                "reducing": ctx.get_reducing_state(
                    ReducingStateDescriptor(f"{name}_r", lambda a, b: b, kind)
                ),
                "aggregating": ctx.get_aggregating_state(
                    AggregatingStateDescriptor(f"{name}_a", Last(), kind)
                ),
            }
            if case.is_key:
                states["keys"] = ctx.get_map_state(MapStateDescriptor(f"{name}_mk", kind, "int"))
            self.states |= {(name, state): handle for state, handle in states.items()}

    def process_element(self, row: Any, ctx: Any) -> Any:
        for (name, state), handle in self.states.items():
            values = CASES[name].values
            if row.step == 0:
                getattr(self, f"write_{state}")(handle, values)
            else:
                got, expected = getattr(self, f"read_{state}")(handle, values)
                yield name, state, same(got, expected), f"{got!r} is not {expected!r}"

    def write_value(self, state: Any, values: list[Any]) -> None:
        for value in values:
            state.update(value)

    def read_value(self, state: Any, values: list[Any]) -> Any:
        return state.value(), values[-1]

    def write_list(self, state: Any, values: list[Any]) -> None:
        state.add_all(values)

    def read_list(self, state: Any, values: list[Any]) -> Any:
        return state.get(), values

    def write_values(self, state: Any, values: list[Any]) -> None:
        state.put_all(dict(enumerate([*values, None])))

    def read_values(self, state: Any, values: list[Any]) -> Any:
        return [state[i] for i in sorted(state)], [*values, None]

    def write_reducing(self, state: Any, values: list[Any]) -> None:
        for value in values:
            state.add(value)

    def read_reducing(self, state: Any, values: list[Any]) -> Any:
        return state.get(), values[-1]

    write_aggregating = write_reducing
    read_aggregating = read_reducing

    def write_keys(self, state: Any, values: list[Any]) -> None:
        for i, value in enumerate(values):
            state[value] = i

    def read_keys(self, state: Any, values: list[Any]) -> Any:
        found = [state[value] for value in values]
        keys = [key for key, _ in sorted(state.items(), key=lambda item: item[1])]
        return [found, keys], [list(range(len(values))), list(map(as_key, values))]


def every_state(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(
        EveryState(), "name string, state string, same boolean, difference string"
    )


def test_every_state_holds_every_type(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    fed = stream("key long, step int")
    fed.feed([(1, 0)])
    assert fed.run(every_state) == []
    for entries in ("1000", "0"):  # sent ahead, asked for
        settings(**{"spark.keystate.worker.inlineEntries": entries})
        fed.feed([(1, 1)])
        read = fed.run(every_state)
        assert [(r.name, r.state, r.difference) for r in read if not r.same] == []
        assert len(read) == sum(6 if case.is_key else 5 for case in CASES.values())


class Pass(KeyedProcessFunction):
    """Emits each row with its key's count; the key must be what the row says."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "int", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        key = ctx.get_current_key()
        for name in key.__fields__:
            value, expected = key[name], row[name]
            if isinstance(expected, float):
                expected += 0.0
            assert same(value, expected), f"key {name} is {value!r}, not {expected!r}"
        self.count.update(self.count.value() + 1)
        yield (*row, self.count.value())


def with_every_type(df: DataFrame) -> DataFrame:
    """The i-th value of every type, nulls where there are fewer."""
    return df.select(
        "i", *(sf.expr(f"get(array({', '.join(c.sql)}), i)").alias(n) for n, c in CASES.items())
    )


def passed(df: DataFrame) -> DataFrame:
    typed = with_every_type(df)
    schema = T.StructType([*typed.schema.fields, T.StructField("count", T.IntegerType())])
    keys = [name for name, case in CASES.items() if case.is_key]
    out = keystate.keyed(typed, *keys).process(Pass(), schema)
    # PySpark itself can't collect a map whose keys are arrays.
    return out.withColumn("map_of_arrays", sf.col("map_of_arrays").cast("string"))


def test_every_type_as_key_and_output(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.timeType.enabled": "true"})
    fed = stream("i int")
    for count in (1, 2):
        fed.feed([(i,) for i in range(5)])
        rows = sorted(fed.run(passed), key=lambda row: row.i)
        assert [row.i for row in rows] == list(range(5))
        for row in rows:
            expected = {
                name: case.values[row.i] if row.i < len(case.values) else None
                for name, case in CASES.items()
            }
            expected["map_of_arrays"] = ["{}", "{[1, null] -> 0.5}", None, None, None][row.i]
            assert [n for n in expected if not same(row[n], expected[n])] == [], row
            assert row["count"] == count


@dataclass(frozen=True)
class Place:
    city: str
    since: datetime | None


@dataclass
class Person:
    name: str
    age: int | None
    home: Place
    others: list[Place]
    by_year: dict[int, Place]
    scores: tuple[float, ...] = ()


def person(i: int) -> Person:
    place = Place(f"city {i}", datetime(1960, 1, 1) if i % 2 else None)
    return Person(f"p{i}", i if i % 2 else None, place, [place] * i, {1900 + i: place}, (0.5,) * i)


class People(KeyedProcessFunction):
    """Keeps objects of dataclasses; step n writes number n and reads number n - 1."""

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", Person))
        self.list = ctx.get_list_state(ListStateDescriptor("list", Person))
        self.map = ctx.get_map_state(MapStateDescriptor("map", Place, Person))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.step:
            before = person(row.step - 1)
            assert self.value.value() == before, self.value.value()
            assert type(self.value.value().home) is Place
            assert list(self.list) == [person(i) for i in range(row.step)]
            assert self.map[before.home] == before
            assert before.home in list(self.map)
        new = person(row.step)
        self.value.update(new)
        self.list.add(new)
        self.map[new.home] = new
        yield new


def test_dataclasses(stream: Callable[..., Any]) -> None:
    def people(df: DataFrame) -> DataFrame:
        return keystate.keyed(df, "key").process(People(), Person)

    fed = stream("key long, step int")
    fed.feed([(1, 0), (1, 1)])
    emitted = fed.run(people)
    fed.feed([(1, 2), (1, 3)])
    emitted += fed.run(people)
    assert [row.name for row in emitted] == ["p0", "p1", "p2", "p3"]
    assert emitted[3].home == Row(city="city 3", since=datetime(1960, 1, 1))
    assert emitted[2].age is None
    assert emitted[3].by_year == {1903: emitted[3].home}


@dataclass
class Pair:
    b: str
    a: int


FORMS = [
    (1, "x"),
    [1, "x"],
    {"b": "x", "a": 1},
    Row(1, "x"),
    Row(b="x", a=1),  # by name
    Row(first=1, second="x"),  # by position: no name in it is a field's
    Pair("x", 1),
]


class Forms(KeyedProcessFunction):
    """Puts a struct in in some form, and reads it as a Row at once and later."""

    def open(self, ctx: Any) -> None:
        kind = "a int, b string"
        self.value = ctx.get_state(ValueStateDescriptor("value", kind, default=(0, "none")))
        self.list = ctx.get_list_state(ListStateDescriptor("list", f"array<struct<{kind}>>"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", kind, kind))

    def process_element(self, row: Any, ctx: Any) -> Any:
        form = FORMS[row.key]
        if row.step == 0:
            assert self.value.value().b == "none"
            self.value.update(form)
            self.list.add([form, None])
            self.map[form] = form
        value, [[element, nothing]] = self.value.value(), self.list
        assert nothing is None
        for read in (value, element, *self.map.keys(), *self.map.values(), self.map[form]):
            assert (read.a, read.b) == (1, "x"), read
            assert isinstance(read, Row)
        yield form


def test_forms_of_a_struct(stream: Callable[..., Any]) -> None:
    def forms(df: DataFrame) -> DataFrame:
        return keystate.keyed(df, "key").process(Forms(), "a int, b string")

    fed = stream("key int, step int")
    # A list is many results, not one.
    keys = [key for key, form in enumerate(FORMS) if not isinstance(form, list)]
    fed.feed([(key, 0) for key in keys])
    emitted = fed.run(forms)
    fed.feed([(key, 1) for key in keys])
    emitted += fed.run(forms)
    assert emitted == [Row(a=1, b="x")] * 2 * len(keys)
