"""What states with a time to live of 100 ms do, as a table: for whoever runs functions.

A case is one key's life: at a time (ms of processing time, the same for a whole micro-batch) an
operation of one state, with its argument, gives a result. Every state of a key has the same update
type and visibility. Keys of maps are strings, in sorted maps numbers; all values are numbers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

TTL_MS = 100


@dataclass(frozen=True)
class Case:
    """One key: what is done with one kind of state at which time, and what comes of it."""

    name: str
    kind: str
    steps: tuple[tuple[int, str, Any, Any], ...]
    config: str = "write"


def ttl_config(name: str, ttl_ms: int = TTL_MS) -> StateTtlConfig:
    """The configuration that a case names: `write`, `read` or `expired` (may be returned)."""
    builder = StateTtlConfig.new_builder(timedelta(milliseconds=ttl_ms))
    if name == "read":
        builder.update_ttl_on_read_and_write()
    if name == "expired":
        builder.return_expired_if_not_cleaned_up().disable_cleanup_in_background()
    return builder.build()


CONFIGS = ("write", "read", "expired")

CASES = (
    Case("a value expires when its time has passed", "value", (
        (0, "update", 1, None), (50, "value", None, 1), (99, "value", None, 1),
        (100, "value", None, None), (160, "value", None, None),
    )),
    Case("writing makes a value live on", "value", (
        (0, "update", 1, None), (60, "update", 2, None), (120, "value", None, 2),
        (160, "value", None, None),
    )),
    Case("a value is written again after it expired", "value", (
        (0, "update", 1, None), (120, "value", None, None), (120, "update", 3, None),
        (120, "value", None, 3), (219, "value", None, 3), (220, "value", None, None),
    )),
    Case("a cleared value stays cleared", "value", (
        (0, "update", 1, None), (50, "clear", None, None), (60, "value", None, None),
    )),
    Case("reading makes a value live on", "value", (
        (0, "update", 1, None), (60, "value", None, 1), (120, "value", None, 1),
        (219, "value", None, 1), (320, "value", None, None),
    ), "read"),
    Case("an expired value is returned once", "value", (
        (0, "update", 1, None), (100, "value", None, 1), (120, "value", None, None),
    ), "expired"),
    Case("elements of a list expire one by one", "list", (
        (0, "add", 1, None), (60, "add", 2, None), (99, "get", None, [1, 2]),
        (100, "get", None, [2]), (120, "add", 3, None), (120, "get", None, [2, 3]),
        (160, "get", None, [3]), (220, "get", None, []),
    )),
    Case("a list that is replaced lives on", "list", (
        (0, "add", 1, None), (60, "update", [5, 6], None), (120, "get", None, [5, 6]),
        (160, "get", None, []),
    )),
    Case("reading makes a list live on", "list", (
        (0, "add", 1, None), (60, "get", None, [1]), (60, "add", 2, None),
        (120, "get", None, [1, 2]), (219, "get", None, [1, 2]), (320, "get", None, []),
    ), "read"),
    Case("expired elements are returned once", "list", (
        (0, "add", 1, None), (100, "get", None, [1]), (120, "get", None, []),
    ), "expired"),
    *(Case(f"entries of a {kind} expire one by one", kind, (
        (0, "put", [1, 1], None), (60, "put", [2, 2], None), (60, "contains", 1, True),
        (100, "contains", 1, False), (100, "get", 1, None), (100, "items", None, [[2, 2]]),
        (120, "put", [3, 3], None), (120, "items", None, [[2, 2], [3, 3]]),
        (160, "items", None, [[3, 3]]), (219, "is_empty", None, False),
        (220, "is_empty", None, True),
    )) for kind in ("map", "sorted_map")),
    *(Case(f"reading makes entries of a {kind} live on", kind, (
        (0, "put", [1, 1], None), (0, "put", [2, 2], None), (60, "get", 1, 1),
        (120, "items", None, [[1, 1]]), (219, "contains", 1, True), (280, "get", 1, 1),
        (400, "get", 1, None),
    ), "read") for kind in ("map", "sorted_map")),
    *(Case(f"reading an entry of a {kind} that has no value makes it live on", kind, (
        (0, "put", [1, None], None), (60, "get", 1, None), (60, "get", 2, None),
        (120, "contains", 1, True), (120, "contains", 2, False), (220, "contains", 1, False),
    ), "read") for kind in ("map", "sorted_map")),
    *(Case(f"asking whether a {kind} is empty is no read", kind, (
        (0, "put", [1, 1], None), (60, "is_empty", None, False), (100, "is_empty", None, True),
    ), "read") for kind in ("map", "sorted_map")),
    Case("the first entry of a sorted map is one that lives", "sorted_map", (
        (0, "put", [1, 1], None), (60, "put", [2, 2], None), (60, "first_entry", None, [1, 1]),
        (100, "first_entry", None, [2, 2]), (100, "last_entry", None, [2, 2]),
        (160, "first_entry", None, None), (160, "put", [1, 7], None),
        (219, "first_entry", None, [1, 7]),
    )),
    Case("reading the first entry of a sorted map makes it live on", "sorted_map", (
        (0, "put", [1, 1], None), (0, "put", [2, 2], None), (60, "first_entry", None, [1, 1]),
        (120, "items", None, [[1, 1]]),
    ), "read"),
    Case("expired entries of a map are returned once", "map", (
        (0, "put", [1, 1], None), (100, "items", None, [[1, 1]]), (120, "items", None, []),
    ), "expired"),
    *(Case(f"a {kind} state lives on when something is added", kind, (
        (0, "add", 1, None), (60, "add", 2, None), (120, "get", None, 3), (160, "get", None, None),
        (160, "add", 5, None), (219, "get", None, 5), (280, "get", None, None),
    )) for kind in ("reducing", "aggregating", "folding")),
    *(Case(f"reading makes a {kind} state live on", kind, (
        (0, "add", 1, None), (60, "get", None, 1), (120, "add", 2, None), (219, "get", None, 3),
        (320, "get", None, None),
    ), "read") for kind in ("reducing", "aggregating", "folding")),
)  # fmt: skip


class Sum(AggregateFunction[int, int, int]):
    """Adds up."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


def descriptor(kind: str, name: str) -> StateDescriptor:
    """A state of this kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made: dict[str, StateDescriptor] = {
            "value": ValueStateDescriptor(name, "long"),
            "list": ListStateDescriptor(name, "long"),
            "map": MapStateDescriptor(name, "string", "long"),
            "sorted_map": SortedMapStateDescriptor(name, "long", "long"),
            "reducing": ReducingStateDescriptor(name, lambda a, b: a + b, "long"),
            "aggregating": AggregatingStateDescriptor(name, Sum(), "long"),
            "folding": FoldingStateDescriptor(name, 0, lambda acc, v: acc + v, "long"),
        }
    return made[kind]


KINDS = ("value", "list", "map", "sorted_map", "reducing", "aggregating", "folding")


def perform(state: Any, kind: str, operation: str, argument: Any) -> Any:
    """Does one step with a state; the result as JSON has it."""
    if kind == "map" and operation in ("put", "get", "contains"):
        key = argument[0] if operation == "put" else argument
        argument = [str(key), argument[1]] if operation == "put" else str(key)
    arguments = argument if operation == "put" else [] if argument is None else [argument]
    result = getattr(state, operation)(*arguments)
    if operation == "items":
        return sorted([int(key), value] for key, value in result)
    if operation in ("first_entry", "last_entry"):
        return None if result is None else list(result)
    return list(result) if kind == "list" and operation == "get" else result


class TtlStates(KeyedProcessFunction):
    """A state of each kind and configuration; rows say what to do: kind, config, operation."""

    def open(self, ctx: Any) -> None:
        getters = {
            "value": ctx.get_state,
            "list": ctx.get_list_state,
            "map": ctx.get_map_state,
            "sorted_map": ctx.get_sorted_map_state,
            "reducing": ctx.get_reducing_state,
            "aggregating": ctx.get_aggregating_state,
            "folding": ctx.get_folding_state,
        }
        self.states = {}
        for kind in KINDS:
            for config in CONFIGS:
                declared = descriptor(kind, f"{kind}_{config}")
                declared.enable_time_to_live(ttl_config(config))
                self.states[kind, config] = getters[kind](declared)

    def process_element(self, row: Any, ctx: Any) -> Any:
        import json

        state = self.states[row.kind, row.config]
        result = perform(state, row.kind, row.operation, json.loads(row.argument))
        yield row.key, row.number, json.dumps(result)
