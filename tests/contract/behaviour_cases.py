"""The table of what states and timers do, and a function that does what it says."""

from __future__ import annotations

import datetime
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keystate import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    KeyedProcessFunction,
    KeyOrder,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    TimeDomain,
    ValueStateDescriptor,
)

from tests.contract.test_state_model import Mean

TABLE = json.loads(Path(__file__).with_name("behaviour_cases.json").read_text())
#: Those that tests/fuzz/behaviours.py drew; the environment can name another file.
DRAWN = os.environ.get("KEYSTATE_BEHAVIOUR_CASES") or Path(__file__).with_name(
    "random_behaviour_cases.json"
)
TABLE["cases"] += json.loads(Path(DRAWN).read_text())["cases"]
INPUT = "name string, number int, state string, method string, arguments string, time timestamp"
OUTPUT = "name string, number int, result string"
#: Micro-batches that the longest case needs.
BATCHES = max(len(case["batches"]) for case in TABLE["cases"])
#: By the last digit of an event-time timer, how much later it sets another one.
FOLLOWING = {7: 41, 8: -2}


@dataclass(frozen=True)
class Expected:
    """The table as rows in and rows out: by micro-batch."""

    rows: list[list[tuple[Any, ...]]]
    results: list[list[tuple[Any, ...]]]


def event_time(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000)


def expected() -> Expected:
    rows: list[list[tuple[Any, ...]]] = [[] for _ in range(BATCHES)]
    results: list[list[tuple[Any, ...]]] = [[] for _ in range(BATCHES)]
    for case in TABLE["cases"]:
        name = case["name"]
        for i, steps in enumerate(case["batches"]):
            time = event_time(100 * (i + 1) if i + 1 < BATCHES else 100 * i)
            for number, (method, arguments, result) in enumerate(steps):
                step = 100 * i + number
                rows[i].append((name, step, case["state"], method, json.dumps(arguments), time))
                results[i].append((name, step, json.dumps(result)))
        for i, fired in enumerate(case.get("fires", [])):
            results[i] += [(name, -1, json.dumps(each)) for each in fired]
    return Expected(rows, results)


class Interpreter(KeyedProcessFunction):
    """Does what the rows say with the states of the table."""

    def open(self, ctx: Any) -> None:
        self.states = {
            name: _state(ctx, name, declared) for name, declared in TABLE["states"].items()
        }

    def process_element(self, row: Any, ctx: Any) -> Any:
        target = ctx.timer_service() if row.state == "timers" else self.states[row.state]
        arguments = json.loads(row.arguments)
        if row.state == "struct" and arguments:
            arguments = [tuple(arguments[0])]
        result = getattr(target, row.method)(*arguments)
        if row.method in ("items", "keys", "values") or row.method.endswith("_iterator"):
            result = list(result)
            if row.state == "map":
                result.sort()
        yield row.name, row.number, json.dumps(result)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        clock = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        watermark = ctx.timer_service().current_watermark()
        if clock == "event" and timestamp % 10 in FOLLOWING:
            later = FOLLOWING[timestamp % 10]
            ctx.timer_service().register_event_time_timer(timestamp + later)
        yield ctx.get_current_key(), -1, json.dumps([clock, timestamp, watermark])


def _state(ctx: Any, name: str, declared: dict[str, Any]) -> Any:
    kind, value_type = declared["kind"], declared["type"]
    if kind == "value":
        return ctx.get_state(ValueStateDescriptor(name, value_type, declared.get("default")))
    if kind == "list":
        return ctx.get_list_state(ListStateDescriptor(name, value_type))
    if kind == "map":
        return ctx.get_map_state(MapStateDescriptor(name, declared["key_type"], value_type))
    if kind == "sorted_map":
        order = KeyOrder(declared.get("order", "natural"))
        descriptor = SortedMapStateDescriptor(name, declared["key_type"], value_type, order)
        return ctx.get_sorted_map_state(descriptor)
    if kind == "reducing":
        return ctx.get_reducing_state(ReducingStateDescriptor(name, _add, value_type))
    if kind == "aggregating":
        return ctx.get_aggregating_state(AggregatingStateDescriptor(name, Mean(), value_type))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return ctx.get_folding_state(
            FoldingStateDescriptor(name, declared["initial"], _append, value_type)
        )


def _add(a: int, b: int) -> int:
    return a + b


def _append(text: str, number: int) -> str:
    return f"{text}{number}"
