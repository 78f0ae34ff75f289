"""What broadcast states do, as micro-batches of steps, and functions that do these steps."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from keystate import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateAccessError,
    ValueStateDescriptor,
)

RULES = MapStateDescriptor("rules", "string", "long")
PAIRS = MapStateDescriptor("pairs", "a long, b string", "array<long>")
TOTAL = ValueStateDescriptor("total", "long", default=0)
SEEN = ListStateDescriptor("seen", "long")

ELEMENT = "number int, state string, method string, arguments string"
ROW = "key string, " + ELEMENT
OUTPUT = "key string, number int, result string"

REFUSED = "StateAccessError"
Step = tuple[str, str, list[Any], Any]

#: Micro-batches: the steps of its broadcast elements, and those of each key's rows.
BATCHES: list[tuple[list[Step], dict[str, list[Step]]]] = [
    # Rows alone, before the first element.
    (
        [],
        {
            "a": [
                ("rules", "is_empty", [], True),
                ("rules", "get", ["x"], None),
                ("total", "update", [1], None),
                ("seen", "add", [1], None),
            ],
            "b": [("rules", "items", [], []), ("total", "update", [2], None)],
            "c": [("seen", "add", [3], None)],
        },
    ),
    # Rows see what all elements of their micro-batch made; elements see each other's work.
    (
        [
            ("rules", "is_empty", [], True),
            ("rules", "put", ["x", 1], None),
            ("rules", "get", ["x"], 1),
            ("rules", "put_all", [{"y": 2, "z": 3}], None),
            ("rules", "remove", ["z"], None),
            ("rules", "remove", ["none"], None),
            ("rules", "contains", ["z"], False),
            ("rules", "items", [], [["x", 1], ["y", 2]]),
            ("pairs", "put", [[1, "p"], [1, 2]], None),
            ("rules", "put", ["x", 10], None),
        ],
        {
            "a": [
                ("rules", "items", [], [["x", 10], ["y", 2]]),
                ("rules", "contains", ["x"], True),
                ("rules", "put", ["x", 5], REFUSED),
                ("rules", "put_all", [{"x": 5}], REFUSED),
                ("rules", "remove", ["x"], REFUSED),
                ("rules", "clear", [], REFUSED),
                ("rules", "apply", ["add", 1], REFUSED),
                ("rules", "get", ["x"], 10),
                ("pairs", "get", [[1, "p"]], [1, 2]),
                ("total", "value", [], 1),
            ],
            "d": [("rules", "keys", [], ["x", "y"]), ("total", "value", [], 0)],
        },
    ),
    # Elements alone; every key of every subtask that has the state is changed.
    (
        [
            ("total", "apply", ["add", 100], None),
            ("seen", "apply", ["add", 7], None),
            ("total", "apply", ["add", 1], None),
            ("rules", "remove", ["y"], None),
        ],
        {},
    ),
    (
        [("total", "apply", ["clear"], None), ("total", "apply", ["add", 5], None)],
        {
            "a": [("seen", "get", [], [1, 7]), ("total", "value", [], 0)],
            "b": [("seen", "get", [], []), ("total", "value", [], 0)],
            "c": [("seen", "get", [], [3, 7]), ("total", "update", [4], None)],
            "d": [("rules", "values", [], [10]), ("seen", "get", [], [])],
        },
    ),
    # Cleared and filled anew in one micro-batch.
    (
        [
            ("rules", "clear", [], None),
            ("rules", "items", [], []),
            ("rules", "put", ["w", 4], None),
            ("pairs", "remove", [[1, "p"]], None),
        ],
        {
            "b": [("rules", "items", [], [["w", 4]]), ("pairs", "is_empty", [], True)],
            "c": [("total", "value", [], 4), ("rules", "get", ["w"], 4)],
        },
    ),
]

Rows = list[tuple[Any, ...]]


def _encoded(number: int, step: Step) -> tuple[Any, ...]:
    state, method, arguments, _ = step
    return (number, state, method, json.dumps(arguments))


def elements(batch: int) -> Rows:
    """A micro-batch's broadcast elements."""
    return [_encoded(i, step) for i, step in enumerate(BATCHES[batch][0])]


def _has_keys(step: Step) -> bool:
    return step[0] in (TOTAL.name, SEEN.name) or step[1] == "apply"


def rows(batch: int, keyed: bool) -> Rows:
    """A micro-batch's rows; without keys only the steps that need none."""
    return [
        (key, *_encoded(i, step))
        for key, steps in BATCHES[batch][1].items()
        for i, step in enumerate(steps)
        if keyed or not _has_keys(step)
    ]


def expected(batch: int, keyed: bool, subtasks: int) -> Rows:
    """What a micro-batch emits, sorted."""
    of_elements = [
        ("", i, json.dumps(step[3]))
        for i, step in enumerate(BATCHES[batch][0])
        if keyed or not _has_keys(step)
    ]
    of_rows = [
        (key, i, json.dumps(step[3]))
        for key, steps in BATCHES[batch][1].items()
        for i, step in enumerate(steps)
        if keyed or not _has_keys(step)
    ]
    return sorted(of_elements * subtasks + of_rows)


def _perform(target: Any, step: Any) -> str:
    arguments = json.loads(step.arguments)
    if step.state == PAIRS.name and arguments:
        arguments[0] = tuple(arguments[0])
    try:
        result = getattr(target, step.method)(*arguments)
    except StateAccessError as e:
        assert "can only be read" in str(e)
        return json.dumps(REFUSED)
    if step.method in ("items", "keys", "values"):
        result = sorted(result)
    return json.dumps(list(result) if isinstance(result, Iterable) else result)


_BROADCAST = {state.name: state for state in (RULES, PAIRS)}
_KEYED = {state.name: state for state in (TOTAL, SEEN)}


def _change(change: str, *arguments: Any) -> Any:
    def call(key: str, state: Any) -> None:
        if change == "clear":
            state.clear()
        elif hasattr(state, "value"):
            state.update(state.value() + arguments[0])
        else:
            state.add(*arguments)

    return call


class Keyed(KeyedBroadcastProcessFunction):
    """Does the steps; emits nothing for those of elements that it can't see the result of."""

    def open(self, ctx: Any) -> None:
        self.states = {TOTAL.name: ctx.get_state(TOTAL), SEEN.name: ctx.get_list_state(SEEN)}

    def process_broadcast_element(self, step: Any, ctx: Any) -> Any:
        if step.method == "apply":
            change = _change(*json.loads(step.arguments))
            ctx.apply_to_keyed_state(_KEYED[step.state], change)
            yield "", step.number, json.dumps(None)
        else:
            target = ctx.get_broadcast_state(_BROADCAST[step.state])
            yield "", step.number, _perform(target, step)

    def process_element(self, step: Any, ctx: Any) -> Any:
        if step.method == "apply":
            assert not hasattr(ctx, "apply_to_keyed_state")
            yield step.key, step.number, json.dumps(REFUSED)
        elif step.state in self.states:
            yield step.key, step.number, _perform(self.states[step.state], step)
        else:
            target = ctx.get_broadcast_state(_BROADCAST[step.state])
            yield step.key, step.number, _perform(target, step)


class Plain(BroadcastProcessFunction):
    """The same without keys."""

    def process_broadcast_element(self, step: Any, ctx: Any) -> Any:
        if step.method != "apply":
            target = ctx.get_broadcast_state(_BROADCAST[step.state])
            yield "", step.number, _perform(target, step)

    def process_element(self, step: Any, ctx: Any) -> Any:
        target = ctx.get_broadcast_state(_BROADCAST[step.state])
        yield step.key, step.number, _perform(target, step)
