"""What windows do, as a table that Python and Scala share: ``window_cases.json``."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keystate import AggregateFunction, windows
from keystate.windows import ProcessWindowFunction, Windows, window

OUTPUT = "key string, total long, start long, last long"

Emitted = tuple[str, int, int | None, int | None]


class Total(ProcessWindowFunction):
    """The total of rows, or the one sum that there is, with the window."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        values = [each if isinstance(each, int) else each.value for each in elements]
        of = context.window()
        if hasattr(of, "start"):
            yield key, sum(values), of.start, of.max_timestamp()
        else:
            yield key, sum(values), None, None


class Sum(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value.value)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Row(NamedTuple):
    """A row in a micro-batch of its own; with a watermark, that is what it ends with."""

    key: str
    value: int
    time: int
    watermark: int | None = None


class Watermark(NamedTuple):
    time: int


class Clock(NamedTuple):
    time: int


class Restart(NamedTuple):
    parallelism: int


class NewRules(NamedTuple):
    """A restart with another trigger and lateness."""

    windows: Windows


STEPS = {"row": Row, "watermark": Watermark, "clock": Clock, "restart": Restart}


class Case(NamedTuple):
    """One case.

    Attributes:
        name: of the test of Flink's that it is.
        windows: the windows.
        steps: what happens, with what it emits.
        late: the rows that were late: key, value and event time.
    """

    name: str
    windows: Windows
    steps: Sequence[tuple[Any, list[Emitted]]]
    late: Sequence[tuple[str, int, int]]


def at(millis: int) -> datetime.datetime:
    """A time of a row, as a local one."""
    return datetime.datetime.fromtimestamp(millis / 1000)


def made(name: str, *arguments: Any) -> Any:
    """An assigner, trigger or evictor, by its class and the arguments of what makes it."""
    cls = getattr(windows, name)
    if name == "PurgingTrigger":
        return cls.of(made(*arguments[0]))
    if name == "DeltaEvictor":
        threshold, *after = arguments
        return cls.of(threshold, lambda old, last: last.value - old.value, *after)
    makers = (getattr(cls, maker, None) for maker in ("of", "with_gap", "create"))
    return next(maker for maker in makers if maker is not None)(*arguments)


def _windows(json: dict[str, Any]) -> Windows:
    windowed = window(made(*json["assigner"])).allowed_lateness(json.get("lateness", 0))
    if "trigger" in json:
        windowed = windowed.trigger(made(*json["trigger"]))
    if "evictor" in json:
        windowed = windowed.evictor(made(*json["evictor"]))
    return windowed


def case_of(json: dict[str, Any]) -> Case:
    """A case of a table."""
    windowed = _windows(json)
    steps: list[tuple[Any, list[Emitted]]] = []
    for kind, *arguments in json["steps"]:
        if kind == "rules":
            steps.append((NewRules(_windows({**json, **arguments[0]})), []))
            continue
        emitted = arguments.pop() if isinstance(arguments[-1], list) else []
        steps.append((STEPS[kind](*arguments), [tuple(each) for each in emitted]))
    return Case(json["name"], windowed, steps, [tuple(row) for row in json.get("late", [])])


def table(name: str) -> list[dict[str, Any]]:
    """The cases of a table."""
    cases: list[dict[str, Any]] = json.loads(Path(__file__).with_name(f"{name}.json").read_text())[
        "cases"
    ]
    return cases


CASES = list(map(case_of, table("window_cases")))


def by_list(windows: Windows) -> Any:
    return windows.process(Total())


def by_reduce(windows: Windows) -> Any:
    return windows.reduce(lambda a, b: (a.key, a.value + b.value, b.time), Total())


def by_aggregate(windows: Windows) -> Any:
    return windows.aggregate(Sum(), "long", Total())


class OpenedTotal(Total):
    """As OpenedSum."""

    def open(self, ctx: Any) -> None:
        pass


def by_opened_list(windows: Windows) -> Any:
    return windows.process(OpenedTotal())


class OpenedSum(Sum):
    """A function that may have states: it is given rows one by one, as they come."""

    def open(self, ctx: Any) -> None:
        pass


def by_opened_aggregate(windows: Windows) -> Any:
    return windows.aggregate(OpenedSum(), "long", Total())
