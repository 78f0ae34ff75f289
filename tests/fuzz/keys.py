"""Key columns of any names and types, in every call that takes a key or shows one.

A query keeps the numbers of each key's rows. The rest of the program asks for keys in each way that
there is, and compares what comes with a model; filters of tables are compared with Spark's own, on
the same rows without pushing them down.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ListStateDescriptor, ValueStateDescriptor, admin
from keystate._types.ddl import quoted
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tests.fuzz import values as v

#: Names that Avro does not take, beside some that it does, and some that it is given for others.
NAMES = (
    "k", "größe", "länge", "user id", "shop id", "a.b", "x`y", "_0", "_1", "名前", "K2", "select",
    "lower(k)", "1st", "key", "-",
)  # fmt: skip
FAR = 4_000_000_000_000
_SCALARS = (
    "bigint", "int", "double", "float", "string", "boolean", "binary", "date", "timestamp",
    "timestamp_ntz", "decimal(10,2)", "decimal(30,2)",
)  # fmt: skip

Build = Callable[[DataFrame], DataFrame]


def random_key(rng: random.Random, depth: int = 2) -> v.Type:
    """A type that a key can have."""
    kind = rng.choice(("scalar", "scalar", "array", "struct")) if depth else "scalar"
    if kind == "array":
        return v.array(random_key(rng, depth - 1))
    if kind == "struct":
        names = rng.sample(NAMES, rng.randint(1, 3))
        parts = tuple(random_key(rng, depth - 1) for _ in names)
        return v.Type("struct", parts, tuple(names))
    return v.scalar(rng.choice(_SCALARS))


@dataclass(frozen=True)
class Program:
    """Key columns, which of them are told as expressions, the keys, and the keys of each row."""

    names: tuple[str, ...]
    types: tuple[v.Type, ...]
    expressions: tuple[bool, ...]
    keys: tuple[tuple[Any, ...], ...]
    absent: tuple[Any, ...]
    runs: tuple[tuple[tuple[int, ...], ...], ...]
    seed: int = field(repr=False, default=0)

    def describe(self) -> str:
        return "\n  ".join((self.schema, f"expressions {self.expressions}", *map(str, self.keys)))

    @property
    def schema(self) -> str:
        columns = (f"{quoted(n)} {t.ddl}" for n, t in zip(self.names, self.types))
        return ", ".join([*columns, "n bigint"])

    def columns(self) -> list[Column]:
        """What the query is keyed by. An expression is what the column is."""
        plain = [F.col(quoted(name)) for name in self.names]
        made = zip(plain, self.expressions)
        return [F.coalesce(each, each) if is_made else each for each, is_made in made]

    def given(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """A key as a user gives it."""
        return tuple(v.build(kind, value, "tuple") for kind, value in zip(self.types, key))


def generate(rng: random.Random) -> Program:
    names = rng.sample(NAMES, rng.choice((1, 2, 2, 3)))
    # Columns that change places are told by their names alone if they have one type.
    first = random_key(rng)
    types = [first if rng.random() < 0.5 else random_key(rng) for _ in names]

    def drawn() -> tuple[Any, ...]:
        return tuple(
            None if rng.random() < 0.15 else v.draw(kind, rng, share=0.3) for kind in types
        )

    several = {canonical(key): key for key in (drawn() for _ in range(rng.randint(3, 9)))}
    fresh = (key for key in (drawn() for _ in range(50)) if canonical(key) not in several)
    # A boolean key has three values in all: then one that was drawn is left out.
    absent = next(fresh, None) or several.popitem()[1]
    keys = tuple(several.values())
    runs = tuple(
        tuple(
            tuple(rng.randrange(len(keys)) for _ in range(rng.randint(1, 8)))
            for _ in range(rng.randint(1, 2))
        )
        for _ in range(2)
    )
    expressions = tuple(rng.random() < 0.2 for _ in names)
    return Program(
        tuple(names), tuple(types), expressions, keys, absent, runs, rng.randrange(2**32)
    )


def canonical(value: Any) -> str:
    """What a plain value is as a key: there is one zero, and one NaN."""
    if isinstance(value, tuple):
        return f"({','.join(map(canonical, value))})"
    if isinstance(value, float):
        return "nan" if value != value else repr(value + 0.0)
    return repr(value)


class Seen(KeyedProcessFunction):
    """Keeps the numbers of the key's rows, and sets a timer for each of them."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "bigint"))
        self.rows = ctx.get_list_state(ListStateDescriptor("rows", "bigint"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.last.update(row.n)
        self.rows.add(row.n)
        ctx.timer_service().register_processing_time_timer(FAR + row.n)
        yield (row.n,)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from ()


def literal(kind: v.Type, value: Any) -> Column:
    if value is None:
        return F.lit(None).cast(kind.ddl)
    if kind.name == "array":
        return F.array(*(literal(kind.parts[0], each) for each in value)).cast(kind.ddl)
    if kind.name == "struct":
        parts = zip(kind.fields, kind.parts, value)
        return F.struct(*(literal(part, each).alias(name) for name, part, each in parts))
    if kind.name == "timestamp":
        return F.timestamp_micros(F.lit((value - v.EPOCH) // v.MICROSECOND))
    return F.lit(str(value) if kind.name == "timestamp_ntz" else value).cast(kind.ddl)


class Run:
    """A program in a query.

    Args:
        program: the program.
        stream: its `tests.conftest.Stream`.
        restart: sets other settings for the next start.
    """

    def __init__(self, program: Program, spark: Any, stream: Any, restart: Any) -> None:
        self._program, self._spark, self._stream = program, spark, stream
        self._restart = restart
        self._rng = random.Random(program.seed)
        self._fed = 0
        #: Other key columns that the query was tried with.
        self._refused: list[list[Column]] = []
        self.compared = 0
        #: The numbers of each key's rows.
        self._model: dict[str, list[int]] = defaultdict(list)
        probe = spark.createDataFrame([], program.schema).select(*program.columns())
        #: As the query has them: of an expression it is Spark's.
        self._names = probe.columns

    def differences(self) -> Iterator[str]:
        for batches in self._program.runs:
            for batch in batches:
                self._feed(batch)
            self._start()
        yield from self._calls("at first")
        yield from self._filters()
        yield from self._other_columns()
        yield from self._replayed()
        yield from self._forgotten()
        yield from self._edited(Path(self._stream.checkpoint).parent)

    def _keyed(self, df: DataFrame) -> DataFrame:
        return keystate.keyed(df, *self._program.columns()).process(Seen(), "n bigint")

    def _feed(self, batch: tuple[int, ...]) -> None:
        rows = []
        for index in batch:
            key = self._program.keys[index]
            rows.append((*self._program.given(key), self._fed))
            self._model[canonical(key)].append(self._fed)
            self._fed += 1
        self._stream.feed(rows)

    def _start(self, build: Build | None = None) -> None:
        with self._restart():
            self._stream.run(build or self._keyed)

    @property
    def _checkpoint(self) -> str:
        return str(self._stream.checkpoint)

    def _differs(self, what: str, wanted: Any, got: Any) -> Iterator[str]:
        self.compared += 1
        if wanted != got:
            yield f"{what}: wanted {wanted}, found {got}"

    def _calls(self, when: str) -> Iterator[str]:
        """Each call that takes a key, or shows all."""
        for key in (*self._program.keys, self._program.absent):
            given, rows = self._program.given(key), self._model.get(canonical(key))
            found = admin.lookup(self._checkpoint, state="rows", key=given)
            yield from self._differs(f"{when}: lookup of {key}", rows or None, found)
            newest = admin.history(self._checkpoint, key=given)[-1]
            states = {"last": rows[-1], "rows": rows} if rows else {}
            yield from self._differs(f"{when}: history of {key}", states, newest.states)
            times = [time - FAR for _, time in newest.timers]
            yield from self._differs(f"{when}: timers of {key}", rows or [], times)
            left = admin.traces(self._checkpoint, key=given)["key"]
            if rows or key is self._program.absent:
                yield from self._differs(f"{when}: traces of {key}", bool(rows), left)
        wanted = sorted((key, rows[-1]) for key, rows in self._model.items() if rows)
        shown = admin.read_state(self._spark, self._checkpoint, state="last")
        yield from self._differs(f"{when}: names", self._names, shown.schema["key"].dataType.names)
        read = sorted((canonical(v.plain(key)), last.value) for key, last, *_ in shown.collect())
        yield from self._differs(f"{when}: read_state", wanted, read)

    def _conditions(self) -> Iterator[tuple[str, Column]]:
        """Filters on keys, of all the forms that are pushed down, and some that are not."""
        keys, types, names = self._program.keys, self._program.types, self._names

        def part(name: str) -> Column:
            return F.col("key").getField(name)

        def whole(key: tuple[Any, ...]) -> Column:
            parts = zip(names, types, key)
            return F.struct(*(literal(kind, value).alias(name) for name, kind, value in parts))

        for count in (1, 2, 3):
            some = self._rng.sample(keys, min(count, len(keys)))
            told = f"{count} of the keys"
            among = [
                part(name).isin(*(literal(kind, key[i]) for key in some if key[i] is not None))
                for i, (name, kind) in enumerate(zip(names, types))
                if any(key[i] is not None for key in some)
            ]
            if among:
                yield f"IN, each column, {told}", reduce(and_, among)
                yield f"IN, one column, {told}", among[0]
            yield f"IN, whole, {told}", F.col("key").isin(*map(whole, some))
            parts = list(zip(names, types, some[0]))
            yield (
                f"<=> {some[0]}",
                reduce(and_, (part(n).eqNullSafe(literal(kind, x)) for n, kind, x in parts)),
            )
            mixed = [
                part(n).eqNullSafe(literal(kind, x)) if i else part(n).isin(
                    *(literal(kind, key[0]) for key in some if key[0] is not None)
                )
                for i, (n, kind, x) in enumerate(parts)
            ]  # fmt: skip
            if some[0][0] is not None:
                yield f"IN and <=> {some[0]}", reduce(and_, mixed)
            yield f"= {some[0]}", F.col("key") == whole(some[0])

    def _filters(self) -> Iterator[str]:
        tables = {
            "last": "value.value",
            "rows": "list_element.value",
            "$timers": "expiration_timestamp_ms",
            "last$changes": "version",
        }
        conditions = list(self._conditions())
        for name, column in tables.items():
            table = self._spark.table(f"keystate.`{self._checkpoint}`.`{name}`")
            unpushed = table.localCheckpoint()
            for told, condition in self._rng.sample(conditions, min(5, len(conditions))):
                wanted, got = (
                    sorted(row[0] for row in each.where(condition).select(column).collect())
                    for each in (unpushed, table)
                )
                yield from self._differs(f"table {name}, {told}", wanted, got)

    def _other_columns(self) -> Iterator[str]:
        """Key columns that change places, or fields of a struct."""
        columns = self._program.columns()
        others = self._refused
        if len(columns) > 1:
            others.append(columns[::-1])
        for i, kind in enumerate(self._program.types):
            if kind.name == "struct" and len(kind.fields) > 1:
                turned = F.struct(
                    *(columns[i].getField(n).alias(n) for n in reversed(kind.fields))
                ).alias(self._names[i])
                others.append([*columns[:i], turned, *columns[i + 1 :]])
        for other in others:
            self._feed((0,))

            def build(df: DataFrame, other: list[Column] = other) -> DataFrame:
                return keystate.keyed(df, *other).process(Seen(), "n bigint")

            told = ""
            try:
                self._start(build)
            except Exception as error:
                told = str(error)
            is_told = "KEYSTATE_KEY_CHANGED" in told and all(name in told for name in self._names)
            yield from self._differs("other columns are refused by name", (True, ""), (
                is_told, "" if is_told else told[:500]
            ))  # fmt: skip
            self._start()
        yield from self._calls("after a refused start")

    def _replayed(self) -> Iterator[str]:
        if any(self._program.expressions):
            return
        query, key = self._keyed(self._stream.source()), self._program.keys[0]
        given = self._program.given(key)
        last = admin.history(self._checkpoint, key=given)[-1]
        made = keystate.replay(query, self._checkpoint, key=given, batch=last.batch)
        # The last batch has a row of this key only if columns were changed before.
        emitted = [row.n for step in made for row in step.emitted]
        wanted = self._model[canonical(key)][-1:] if len(self._refused) else emitted
        yield from self._differs(f"replay of {key}", (True, wanted), (made.same, emitted))

    def _forgotten(self) -> Iterator[str]:
        key = self._rng.choice(self._program.keys)
        admin.forget(self._checkpoint, key=self._program.given(key))
        self._model.pop(canonical(key), None)
        self._feed((self._program.keys.index(key),))
        self._start()
        yield from self._calls(f"after {key} was forgotten")

    def _edited(self, folder: Path) -> Iterator[str]:
        """Rows that are read go back, under other names of keys, and the query goes on."""
        new = [f"{name}é`." for name in self._names]
        columns = ", ".join(f"{quoted(n)} {t.ddl}" for n, t in zip(new, self._program.types))

        def renamed(df: DataFrame) -> DataFrame:
            pairs = zip(self._names, new)
            key = F.struct(*(F.col("key").getField(old).alias(to) for old, to in pairs))
            return df.withColumn("key", key)

        editor = admin.edit(self._checkpoint)
        for state in ("last", "rows", "$timers"):
            editor.replace(state, editor.read(state))
        editor.rekey(columns, renamed)
        editor.set_max_parallelism(self._rng.choice((7, 64, 1000)))
        editor.write(str(folder / "edited"))
        self._stream.checkpoint = folder / "edited"
        before, self._names = self._names, new
        yield from self._calls("in an edited copy")

        def build(df: DataFrame) -> DataFrame:
            pairs = zip(self._program.columns(), new)
            keys = [column.alias(name) for column, name in pairs]
            return keystate.keyed(df, *keys).process(Seen(), "n bigint")

        self._feed((0,))
        self._start(build)
        yield from self._calls("after the copy went on")
        self._names = before
