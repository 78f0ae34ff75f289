"""A restart with other stateful operators, or in another order, never takes the wrong state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, ValueStateDescriptor, admin
from pyspark.errors import StreamingQueryException

ROWS = "key string, n long"
Build = Callable[[Any], Any]


class Add(KeyedProcessFunction):
    """Adds to the state; yields what it is."""

    def __init__(self, state: str, more: tuple[str, ...], plus: int) -> None:
        self.names = (state, *more)
        self.plus = plus

    def open(self, ctx: Any) -> None:
        self.all = [ctx.get_state(ValueStateDescriptor(n, "long", default=0)) for n in self.names]

    def process_element(self, row: Any, ctx: Any) -> Any:
        for state in self.all:
            state.update(state.value() + self.plus)
        yield row.key, self.all[0].value()


def add(
    name: str | None, plus: int, state: str = "n", more: tuple[str, ...] = (), **options: Any
) -> Build:
    return lambda df: keystate.keyed(df, "key").process(
        Add(state, more, plus), ROWS, name=name, **options
    )


def chain(*steps: Build) -> Build:
    """From the sink to the sources, as operators are numbered."""

    def build(df: Any) -> Any:
        for step in reversed(steps):
            df = step(df)
        return df

    return build


def refused(fed: Any, build: Build, *parts: str) -> None:
    with pytest.raises(StreamingQueryException) as failure:
        fed.run(build)
    for part in parts:
        assert part in str(failure.value), (part, str(failure.value))


def started(stream: Any, build: Build) -> Any:
    fed = stream(ROWS)
    fed.feed([("a", 0)])
    fed.run(build)
    fed.feed([("a", 0)])
    return fed


def one(rows: list[Any]) -> tuple[Any, ...]:
    (row,) = rows
    return tuple(row)


def test_swapped(stream: Any, tmp_path: Path) -> None:
    """Without their names they would take each other's state: 1 + 10 in the place of 20."""
    first = chain(add("ones", 1), add("tens", 10))
    swapped = chain(add("tens", 10), add("ones", 1))
    fed = started(stream, first)
    call = "editor.order_operators([1, 0])"
    refused(fed, swapped, "KEYSTATE_OPERATORS_CHANGED", "0 'tens', 1 'ones'", "0 'ones', 1 'tens'",
            "'tens' is number 1 in the checkpoint and number 0", call)  # fmt: skip
    editor = admin.edit(str(fed.checkpoint))
    editor.order_operators([1, 0])
    editor.write(str(tmp_path / "edited"))
    before, fed.checkpoint = fed.checkpoint, tmp_path / "edited"
    assert one(fed.run(swapped)) == ("a", 20)
    fed.checkpoint = before
    assert one(fed.run(first)) == ("a", 2)


def test_a_new_name_alone_is_fine(stream: Any) -> None:
    fed = started(stream, chain(add("ones", 1), add("tens", 10)))
    assert one(fed.run(chain(add("one", 1), add("tens", 10)))) == ("a", 2)
    assert [op["name"] for op in admin.inspect(str(fed.checkpoint))["operators"]] == ["one", "tens"]
    # The old name is free: it is no longer that of operator 0.
    fed.feed([("a", 0)])
    assert one(fed.run(chain(add("one", 1), add("ones", 10)))) == ("a", 3)
    fed.feed([("a", 0)])
    refused(fed, chain(add("ones", 10), add("one", 1)), "KEYSTATE_OPERATORS_CHANGED")
    # Names may be left out.
    assert one(fed.run(chain(add(None, 1), add(None, 10)))) == ("a", 4)


@pytest.mark.parametrize(
    ("build", "listed"),
    [
        (chain(add("ones", 1), add("tens", 10), add("new", 2)), "0 'ones', 1 'tens', 2 'new'"),
        (chain(add("ones", 1)), "are 0 'ones'; those of"),
        (chain(add("ones", 1), lambda df: df.dropDuplicates(["key"])), "0 'ones', 1 dedupe"),
    ],
    ids=["added", "dropped", "replaced"],
)
def test_other_operators(stream: Any, build: Build, listed: str) -> None:
    fed = started(stream, chain(add("ones", 1), add("tens", 10)))
    refused(fed, build, "KEYSTATE_OPERATORS_CHANGED", listed, "0 'ones', 1 'tens'",
            "editor.drop_operator(number)", "editor.add_operator(fn, key=...)")  # fmt: skip


def test_swapped_without_names(stream: Any, settings: Any) -> None:
    fed = started(stream, chain(add(None, 1, "ones"), add(None, 10, "tens")))
    swapped = chain(add(None, 10, "tens"), add(None, 1, "ones"))
    refused(fed, swapped, "KEYSTATE_STATES_REPLACED", "has the states 'ones' of operator 0",
            "but 'tens'", "order_operators", "editor.rename('ones', 'tens')")  # fmt: skip
    settings(**{"spark.keystate.replacedStates": "allow"})
    assert one(fed.run(swapped)) == ("a", 10)


def test_a_state_that_may_have_been_renamed_is_told(stream: Any) -> None:
    fed = started(stream, add("op", 1, "a", ("b",)))
    assert "keystateUndeclaredStates" not in fed.progress[-1].stateOperators[0].customMetrics
    fed.run(add("op", 1, "a", ("c",)))
    assert fed.progress[-1].stateOperators[0].customMetrics["keystateUndeclaredStates"] == 1


def test_errors_name_the_call_that_mends(stream: Any) -> None:
    fed = started(stream, add("op", 1))
    timed = add("op", 1, time_mode="processing_time")
    refused(fed, timed, "KEYSTATE_TIME_MODE_CHANGED", "operator 0 'op'",
            "editor.set_time_mode('processing_time', operator=0)")  # fmt: skip

    def rekeyed(df: Any) -> Any:
        return keystate.keyed(df, "n").process(Add("n", (), 1), ROWS, name="op")

    refused(fed, rekeyed, "KEYSTATE_KEY_CHANGED", "operator 0 'op'", "editor.rekey(")

    class Text(Add):
        def open(self, ctx: Any) -> None:
            self.all = [ctx.get_state(ValueStateDescriptor("n", "string"))]

    def text(df: Any) -> Any:
        return keystate.keyed(df, "key").process(Text("n", (), 1), ROWS, name="op")

    refused(fed, text, "KEYSTATE_STATE_CHANGED", "operator 0 'op'", "editor.drop('n')")
