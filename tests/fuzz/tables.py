"""Filters of state tables with many keys: their rows are compared, however few are read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
    admin,
)
from pyspark.sql import Column
from pyspark.sql import functions as F

#: Timers so late never fire.
FAR = 4_000_000_000_000
_TYPES: dict[str, Callable[[int], Any]] = {
    "bigint": lambda n: n * 7 - 50,
    "int": lambda n: 40 - n,
    "smallint": lambda n: n,
    "string": lambda n: f"k{n}" if n % 2 else "ä" * (n % 9) + str(n),
    "date": lambda n: date(1970, 1, 1) + timedelta(n * 13 - 400),
    "double": lambda n: n / 4 - 3,
    "boolean": lambda n: n % 2 == 0,
    "binary": lambda n: str(n).encode(),
}
#: What a table shows of a key and its number.
_TABLES: dict[str, tuple[str, Callable[[int], list[int]]]] = {
    "last": ("value.value", lambda n: [n]),
    "all": ("list_element.value", lambda n: [n, n + 1]),
    "by": ("user_map_value.value", lambda n: [n, -n]),
    "$timers": ("expiration_timestamp_ms", lambda n: [FAR + n]),
}

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Condition:
    """On one key column: it has one of these values, or lies between two of them."""

    column: int
    kind: str
    values: tuple[Any, ...]

    def holds(self, key: Key) -> bool:
        value = key[self.column]
        if self.kind == "IS NULL" or value is None:
            return self.kind == "IS NULL" and value is None
        if self.kind == "IN":
            return value in self.values
        low, high = self.values[0], self.values[-1]
        return bool(low <= value <= high) if self.kind == "BETWEEN" else bool(value > low)

    def on(self, column: Column, ddl: str) -> Column:
        if self.kind == "IS NULL":
            return column.isNull()
        given = [F.lit(value).cast(ddl) for value in self.values]
        if self.kind == "IN":
            return column.isin(*given)
        return column.between(given[0], given[-1]) if self.kind == "BETWEEN" else column > given[0]


@dataclass(frozen=True)
class Program:
    """Keys with a number each, and filters: any of some conditions that hold together."""

    types: tuple[str, ...]
    keys: tuple[Key, ...]
    filters: tuple[tuple[str, tuple[tuple[Condition, ...], ...]], ...]
    seed: int = field(repr=False, default=0)

    @property
    def schema(self) -> str:
        return ", ".join([*(f"k{i} {name}" for i, name in enumerate(self.types)), "n bigint"])

    def describe(self) -> str:
        return "\n  ".join([self.schema, f"{len(self.keys)} keys", *map(str, self.filters)])


def generate(rng: random.Random) -> Program:
    types = [rng.choice(list(_TYPES)) for _ in range(rng.choice((1, 1, 2, 3)))]

    def drawn() -> Key:
        return tuple(
            None if rng.random() < 0.03 else _TYPES[name](rng.randrange(100)) for name in types
        )

    keys = list({repr(key): key for key in (drawn() for _ in range(rng.randint(20, 200)))}.values())

    def condition() -> Condition:
        column = rng.randrange(len(types))
        kind = rng.choice(("IN", "IN", "IN", "BETWEEN", ">", "IS NULL"))
        there = [key[column] for key in keys if key[column] is not None]
        values = [
            rng.choice(there) if rng.random() < 0.8 else _TYPES[types[column]](rng.randrange(120))
            for _ in range(rng.choice((1, 2, 3, 10, 40)))
        ]
        values = values if kind == "IN" else sorted(values[:2])
        return Condition(column, kind, tuple(values))

    filters = tuple(
        (
            rng.choice(list(_TABLES)),
            tuple(
                tuple(condition() for _ in range(rng.choice((1, 1, 2, 3))))
                for _ in range(rng.choice((1, 1, 1, 2)))
            ),
        )
        for _ in range(8)
    )
    return Program(tuple(types), tuple(keys), filters, rng.randrange(2**32))


class Keeps(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "bigint"))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "bigint"))
        self.by = ctx.get_map_state(MapStateDescriptor("by", "bigint", "bigint"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.last.update(row.n)
        self.all.update([row.n, row.n + 1])
        self.by.put_all({0: row.n, 1: -row.n})
        ctx.timer_service().register_processing_time_timer(FAR + row.n)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        """Never called."""


def differences(
    program: Program, spark: Any, checkpoint: Path, counted: Callable[[], None]
) -> Iterator[str]:
    """What is wrong in what is read of a checkpoint that has the keys.

    Args:
        counted: is called for each result that is compared.
    """
    rng = random.Random(program.seed)
    for name, clauses in program.filters:
        column, of_number = _TABLES[name]
        wanted = sorted(
            shown
            for n, key in enumerate(program.keys)
            if any(all(each.holds(key) for each in clause) for clause in clauses)
            for shown in of_number(n)
        )
        condition = _condition(program, clauses)
        if rng.random() < 0.5:
            table = spark.table(f"keystate.`{checkpoint}`.`{name}`")
        else:
            table = admin.read_state(spark, str(checkpoint), state=name)
        found = sorted(row[0] for row in table.where(condition).selectExpr(column).collect())
        counted()
        if found != wanted:
            yield f"{name} where {clauses}: wanted {wanted[:9]}, found {found[:9]}"
    yield from _edited(program, spark, checkpoint, counted)


def _edited(
    program: Program, spark: Any, checkpoint: Path, counted: Callable[[], None]
) -> Iterator[str]:
    """A state is replaced by those of its entries that a filter leaves."""
    name, clauses = next((each for each in program.filters if each[0] != "$timers"), ("", ()))
    if not name:
        return
    column, of_number = _TABLES[name]
    editor, copy = admin.edit(str(checkpoint)), f"{checkpoint}-edited"
    editor.replace(name, editor.read(name).where(_condition(program, clauses)))
    editor.write(copy)
    wanted = sorted(
        shown
        for n, key in enumerate(program.keys)
        if any(all(each.holds(key) for each in clause) for clause in clauses)
        for shown in of_number(n)
    )
    read = admin.read_state(spark, copy, state=name).selectExpr(column)
    found = sorted(row[0] for row in read.collect())
    counted()
    if found != wanted:
        yield f"edited {name} where {clauses}: wanted {wanted[:9]}, found {found[:9]}"


def _condition(program: Program, clauses: Any) -> Column:
    whole = F.lit(False)
    for clause in clauses:
        each = F.lit(True)
        for part in clause:
            column = F.col(f"key.k{part.column}")
            each = each & part.on(column, program.types[part.column])
        whole = whole | each
    return whole
