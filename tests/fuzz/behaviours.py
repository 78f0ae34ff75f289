"""Random behaviour cases as JSON, which queries, the harness and Scala run: a table of theirs.

``python -m tests.fuzz.behaviours`` writes the one that is kept, with the states of the table that
was written by hand. Another seed and file: ``python -m tests.fuzz.behaviours 7 cases.json``.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from tests.fuzz import values as v
from tests.fuzz.model import Cell
from tests.fuzz.program import Op, State

TABLES = Path(__file__).parents[1] / "contract"
KEPT = TABLES / "random_behaviour_cases.json"
SEED = 1
CASES = 60
BATCHES = 4

_PAIR = v.struct(a=v.INT, b=v.STRING)
#: The states of the table, as programs have them.
STATES = {
    "value": State("value", "value", v.LONG),
    "defaulted": State("defaulted", "value", v.LONG, default=-1),
    "struct": State("struct", "value", _PAIR),
    "list": State("list", "list", v.STRING),
    "map": State("map", "map", v.LONG, v.STRING),
    "sorted": State("sorted", "sorted_map", v.STRING, v.LONG),
    "descending": State("descending", "sorted_map", v.STRING, v.LONG, "descending"),
    "bytewise": State("bytewise", "sorted_map", v.STRING, v.LONG, "bytewise"),
    "reducing": State("reducing", "reducing", v.LONG, fold="sum"),
}
_ENTRIES = ("floor_entry", "ceiling_entry", "head_iterator", "tail_iterator", "remove", "contains")
_METHODS = {
    "value": ("value", "value", "update", "update", "clear"),
    "list": ("get", "get", "add", "add", "add_all", "update", "clear"),
    "map": ("put", "put", "put_all", "get", "remove", "contains", "items", "keys", "is_empty"),
    "sorted_map": (*("put",) * 6, *_ENTRIES, "get", "first_entry", "last_entry", "pop_first",
                   "sub_iterator", "remove_range", "items", "values", "is_empty"),
    "reducing": ("get", "add", "add", "clear"),
}  # fmt: skip


def _step(rng: random.Random, state: State, cell: Cell) -> list[Any]:
    """A step of the table: method, arguments, result."""
    method = rng.choice(_METHODS[state.kind])
    key: Any = rng.choice("abcde") if state.kind == "map" else rng.choice((-300, -1, 0, 1, 7, 256))
    value = rng.choice("uvwxyz") if state.type == v.STRING else rng.randint(-9, 9)
    if state.type == _PAIR:
        value = rng.choice(((1, "x"), (2, None), (-3, "")))
    arguments: list[Any] = []
    op = Op(0, method, (key,))
    if method in ("put", "add") or (method == "update" and state.kind == "value"):
        arguments = [key, value] if method == "put" else [value]
        op = Op(0, method, tuple(arguments))
    elif method in ("add_all", "update"):
        elements = [rng.choice("uvwxyz") for _ in range(rng.randint(0, 3))]
        arguments, op = [elements], Op(0, method, tuple(elements))
    elif method == "put_all":
        arguments, op = [{key: value, "z": 1}], Op(0, method, ((key, value), ("z", 1)))
    elif method in ("sub_iterator", "remove_range"):
        arguments = sorted((key, rng.choice((-300, 0, 7, 256))))
        op = Op(0, method, (*arguments, False) if method == "sub_iterator" else (*arguments,))
    elif method in (*_ENTRIES, "get") and "map" in state.kind:
        arguments = [key]
        if method.endswith("_iterator"):
            bounds = (None, key) if method == "head_iterator" else (key, None)
            op = Op(0, "sub_iterator", (*bounds, False))
    else:
        op = Op(0, method)
    results = list(cell.call(op, 0))
    return [method, arguments, results[0] if results else None]


def table(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    declared = json.loads((TABLES / "behaviour_cases.json").read_text())["states"]
    cases = []
    for i in range(CASES):
        name = rng.choice(list(STATES))
        cell = Cell(STATES[name])
        batches = [
            [_step(rng, STATES[name], cell) for _ in range(rng.randint(1, 8))]
            for _ in range(BATCHES)
        ]
        cases.append({"name": f"{name} {i}", "state": name, "batches": batches})
    return {"about": f"Written by tests/fuzz/behaviours.py {seed}.", "states": declared,
            "cases": cases}  # fmt: skip


def text(seed: int) -> str:
    made = table(seed)
    cases = ",\n    ".join(json.dumps(case) for case in made["cases"])
    head = {name: made[name] for name in ("about", "states")}
    return f'{json.dumps(head)[:-1]}, "cases": [\n    {cases}]}}\n'


if __name__ == "__main__":
    seed, file = (int(sys.argv[1]), Path(sys.argv[2])) if sys.argv[1:] else (SEED, KEPT)
    file.write_text(text(seed))
