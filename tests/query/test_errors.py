"""Mistakes fail clearly, leave the checkpoint good, and a mended query goes on from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

OUTPUT = "key long, count long"


class Count(KeyedProcessFunction):
    """Counts the rows of a key; subclasses do it wrongly from the second row on."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        count = self.count.value() + 1
        self.count.update(count)
        if count > 1:
            self.go_wrong(row, ctx)
        yield self.result(row, count)

    def go_wrong(self, row: Any, ctx: Any) -> None:
        pass

    def result(self, row: Any, count: int) -> Any:
        return row.key, count


class WrongStateType(Count):
    def go_wrong(self, row: Any, ctx: Any) -> None:
        self.count.update("two")


class WrongResult(Count):
    def result(self, row: Any, count: int) -> Any:
        return (row.key, count) if count == 1 else (row.key, "two")


class WrongWidth(Count):
    def result(self, row: Any, count: int) -> Any:
        return (row.key, count) if count == 1 else (row.key, count, 3)


class Raises(Count):
    def go_wrong(self, row: Any, ctx: Any) -> None:
        self.deeper({})

    def deeper(self, nothing: dict[str, int]) -> int:
        return nothing["missing"]


class LateState(Count):
    def go_wrong(self, row: Any, ctx: Any) -> None:
        self.runtime.get_state(ValueStateDescriptor("late", "long"))

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.runtime = ctx


class ChangedType(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "string"))

    def process_element(self, row: Any, ctx: Any) -> None:
        pass


class ChangedKind(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_list_state(ListStateDescriptor("count", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        pass


def counts(fn: Any) -> Callable[[Any], Any]:
    return lambda df: keystate.keyed(df, "key").process(fn, OUTPUT)


MISTAKES = {
    WrongStateType: ["StateTypeError", "state 'count' of key 7", "expected bigint", "str 'two'"],
    WrongResult: ["OutputTypeError", "field 'count'", "expected bigint", "str 'two'"],
    WrongWidth: ["OutputTypeError", "2 fields", "(7, 2, 3)"],
    Raises: ["KeyError: 'missing'", "in deeper", "while processing key 7"],
    LateState: ["state 'late' was not declared", "in open()"],
    ChangedType: ["KEYSTATE_STATE_CHANGED", "State 'count'", "value<BIGINT>", "value<STRING>"],
    ChangedKind: ["KEYSTATE_STATE_CHANGED", "State 'count'", "value<BIGINT>", "list<BIGINT>"],
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.__name__)
def test_a_mended_query_goes_on(mistake: type, stream: Callable[..., Any]) -> None:
    fed = stream("key long")
    fed.feed([(7,), (8,)])
    assert sorted(map(tuple, fed.run(counts(Count())))) == [(7, 1), (8, 1)]
    fed.feed([(7,)])
    with pytest.raises(StreamingQueryException) as failure:
        fed.run(counts(mistake()))
    for part in MISTAKES[mistake]:
        assert part in str(failure.value)
    assert [tuple(r) for r in fed.run(counts(Count()))] == [(7, 2)]


def test_the_users_own_traceback_comes_first(spark: Any) -> None:
    df = spark.createDataFrame([(7,), (7,)], "key long").coalesce(1)
    with pytest.raises(Exception) as failure:
        counts(Raises())(df).collect()
    text = str(failure.value)
    own = text[text.index("FunctionError: [KEYSTATE_FUNCTION_FAILED] KeyError") :]
    assert own.index("in process_element") < own.index("in deeper") < own.index("while processing")
    assert "operator.py" not in own[: own.index("in process_element")]


def test_settings_that_are_fixed(stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    fed = stream("key long")
    fed.feed([(7,)])
    fed.run(lambda df: keystate.keyed(df, "key", max_parallelism=8).process(Count(), OUTPUT))
    fed.feed([(7,)])
    with pytest.raises(StreamingQueryException, match="max_parallelism=8 and can't be read"):
        fed.run(lambda df: keystate.keyed(df, "key", max_parallelism=9).process(Count(), OUTPUT))
    # Left unset, the recorded one is taken.
    assert [tuple(r) for r in fed.run(counts(Count()))] == [(7, 2)]


def test_provider_missing(stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    settings(
        **{
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
            )
        }
    )
    fed = stream("key long")
    fed.feed([(7,)])
    with pytest.raises(keystate.ConfigurationError, match="HDFSBackedStateStoreProvider, not"):
        fed.run(counts(Count()))


class Declares(KeyedProcessFunction):
    """Declares what a test says."""

    def __init__(self, declare: Callable[[Any], Any]) -> None:
        self.declare = declare

    def open(self, ctx: Any) -> None:
        self.declare(ctx)

    def process_element(self, row: Any, ctx: Any) -> None:
        pass


DECLARATIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "twice": (
        lambda ctx: [ctx.get_state(ValueStateDescriptor("s", "long")) for _ in "ab"],
        "two states are named 's'",
    ),
    "ddl": (
        lambda ctx: ctx.get_state(ValueStateDescriptor("s", "no such type")),
        "state 's': 'no such type' is not a type",
    ),
    "variant": (
        lambda ctx: ctx.get_state(ValueStateDescriptor("s", "variant")),
        "state 's': type variant is not supported",
    ),
    "map key": (
        lambda ctx: ctx.get_map_state(MapStateDescriptor("s", "map<int,int>", "int")),
        "the keys of state 's': a map has no order",
    ),
    "descriptor": (
        lambda ctx: ctx.get_state(ListStateDescriptor("s", "long")),
        "expected a ValueStateDescriptor",
    ),
    "used in open": (
        lambda ctx: ctx.get_state(ValueStateDescriptor("s", "long")).update(1),
        "used in open",
    ),
    "raises": (lambda ctx: 1 // 0, r"open\(\) failed on the driver.*ZeroDivisionError"),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_declarations(spark: Any, case: str) -> None:
    declare, message = DECLARATIONS[case]
    df = spark.createDataFrame([(7,)], "key long")
    with pytest.raises(DeclarationError, match=message):
        keystate.keyed(df, "key").process(Declares(declare), OUTPUT)


def test_arguments(spark: Any, stream: Callable[..., Any]) -> None:
    df = spark.createDataFrame([(7, {"a": 1})], "key long, m map<string,int>")
    with pytest.raises(DeclarationError, match="at least one key"):
        keystate.keyed(df)
    with pytest.raises(DeclarationError, match="add \\(\\)"):
        keystate.keyed(df, "key").process(Count, OUTPUT)
    with pytest.raises(DeclarationError, match="time_mode"):
        keystate.keyed(df, "key").process(Count(), OUTPUT, time_mode="wall")
    with pytest.raises(DeclarationError, match=r"KEYSTATE_KEY_TYPE.*Column 'm'"):
        keystate.keyed(df, "m").process(Count(), OUTPUT)
    with pytest.raises(DeclarationError, match="the output schema"):
        keystate.keyed(df, "key").process(Count(), "key what")
    with pytest.raises(DeclarationError, match="max_parallelism"):
        keystate.keyed(df, "key", max_parallelism=0)
    fed = stream("key long")
    fed.feed([(7,)])
    with pytest.raises(StreamingQueryException, match="KEYSTATE_NO_WATERMARK"):
        fed.run(
            lambda df: keystate.keyed(df, "key").process(Count(), OUTPUT, time_mode="event_time")
        )


class FailsOnce(Count):
    """The first attempt of a task fails after half of its rows, and leaves a file."""

    def __init__(self, failed: Path) -> None:
        self.failed = failed

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.attempt = ctx.get_attempt_number()
        self.rows = 0

    def go_wrong(self, row: Any, ctx: Any) -> None:
        self.rows += 1
        if self.attempt == 0 and self.rows == 5:
            self.failed.touch()
            self.fail()

    def fail(self) -> None:
        raise ValueError("once")


class DiesOnce(FailsOnce):
    def fail(self) -> None:
        import os

        os._exit(17)


@pytest.mark.parametrize("fails", [FailsOnce, DiesOnce])
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_a_retried_task_counts_once(
    fails: type,
    checkpoint_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    fed = stream("key long")
    fed.feed([(key,) for key in range(20)])
    fed.run(counts(Count()))
    fed.feed([(key,) for key in range(20)])
    emitted = fed.run(counts(fails(tmp_path / "failed")))
    assert (tmp_path / "failed").exists()
    assert sorted(map(tuple, emitted)) == [(key, 2) for key in range(20)]
    fed.feed([(key,) for key in range(20)])
    assert sorted(map(tuple, fed.run(counts(Count())))) == [(key, 3) for key in range(20)]
