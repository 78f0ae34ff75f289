"""Whether two values are the same, as far as anybody can see: NaN is NaN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def same(one: Any, other: Any) -> bool:
    """Whether two values of states, rows or results are the same, with NaN anywhere in them.

    Args:
        one: the value.
        other: the other one.

    Returns:
        Whether they are the same: equal, where NaN equals NaN.
    """
    return bool(one == other) or canonical(one) == canonical(other)


def by_key(entries: Mapping[Any, Any]) -> dict[str, tuple[Any, Any]]:
    """The keys and values of a map, found by keys of which NaN is one."""
    return {canonical(key): (key, value) for key, value in entries.items()}


def canonical(value: Any) -> str:
    """A value in a form that is the same for equal ones: maps and sets in any order, and NaN."""
    if isinstance(value, float):
        return repr(value + 0.0)  # -0.0 equals 0.0
    if isinstance(value, dict):
        return (
            f"{{{', '.join(sorted(f'{canonical(k)}: {canonical(v)}' for k, v in value.items()))}}}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(canonical, value))}]"
    if isinstance(value, tuple):  # rows too
        return f"({', '.join(map(canonical, value))})"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(canonical, value)))}}}"
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f"{each.name}={canonical(getattr(value, each.name))}" for each in fields(value))
        return f"{type(value).__qualname__}({', '.join(parts)})"
    return repr(value)
