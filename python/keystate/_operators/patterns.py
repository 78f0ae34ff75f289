"""Patterns of a keyed stream, which the JVM matches without a worker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import Column

from keystate._operators.aggregates import check_rows
from keystate._operators.definition import Input, check_late_output, check_one_of, names_if_read
from keystate.errors import DeclarationError
from keystate.functions import OutputTag
from keystate.patterns import Part, Pattern

OnLimit = Literal["fail", "drop"]


@dataclass(frozen=True, kw_only=True)
class PatternOperator:
    """Matches of a pattern; :meth:`keystate.KeyedStream.pattern` says what its settings are.

    Attributes:
        rows: the rows that are matched, in the order in which they are.
        results: the columns of a match; none if its rows are wanted.
        side_outputs: the side outputs that are read.
    """

    rows: Input
    pattern: Pattern
    results: tuple[Column, ...]
    late_output: OutputTag | None
    timeout_output: OutputTag | None
    max_partial_matches: int | None
    on_limit: OnLimit
    name: str | None
    side_outputs: tuple[OutputTag, ...] = ()

    def check(self) -> None:
        """Raises DeclarationError if a setting is none, or the input doesn't fit."""
        check_rows(self.rows, "a pattern")
        check_one_of("on_limit", self.on_limit, ("fail", "drop"))
        if self.max_partial_matches is not None and self.max_partial_matches < 1:
            raise DeclarationError(
                f"max_partial_matches must be positive, got {self.max_partial_matches}"
            )
        if self.late_output is not None:
            check_late_output(self.late_output, self.rows.row_type)

    def declared(self) -> tuple[list[Column], str]:
        """The conditions, and the JSON that the jar reads, of all but the columns.

        Raises:
            DeclarationError: a side output is read that the operator does not have.
        """
        there = (
            "a pattern has one for late rows, if late_output names it, and one for partial matches "
            "whose time is over, if timeout_output names it"
        )
        tags = self.late_output, self.timeout_output
        late, timeouts = names_if_read(self.side_outputs, tags, there)
        conditions: list[Column] = []
        after = self.pattern.skip
        spec = {
            "name": self.name,
            "maxParallelism": self.rows.max_parallelism,
            "parts": [_part(part, conditions) for part in self.pattern.parts],
            "within": self.pattern.longest,
            "after": {"kind": after.kind, "part": after.part, "needed": after.needed},
            "allRows": not self.results,
            "mostMatches": self.max_partial_matches,
            "drops": self.on_limit == "drop",
            "lateOutput": late,
            "timeoutOutput": timeouts,
        }
        return conditions, json.dumps(spec)


def _part(part: Part, conditions: list[Column]) -> dict[str, Any]:
    def number(condition: Column | None) -> int | None:
        if condition is None:
            return None
        conditions.append(condition)
        return len(conditions) - 1

    if part.absent:
        if part.where is None:
            raise DeclarationError(f"{part.title} of the pattern is absent, but has no condition")
        return {
            "kind": "absent",
            "name": part.name,
            "condition": number(part.where),
            "atOnce": part.absent == "at_once",
            "within": part.within,
        }
    least, most = part.times or (1, 1)
    declared: dict[str, Any] = {
        "skips": part.skips,
        "times": {
            "least": least,
            "most": most,
            "optional": part.optional,
            "skips": part.between,
        },
        "until": number(part.until),
    }
    if part.group:
        return {
            **declared,
            "kind": "group",
            "parts": [_part(one, conditions) for one in part.group],
        }
    return {
        **declared,
        "kind": "rows",
        "name": part.name,
        "condition": number(part.where),
        "greedy": part.greedy,
        "within": part.within,
    }


def loops_for_ever(parts: Sequence[Part]) -> str | None:
    """The name of a part that is repeated any number of times; ``None`` if there is none."""
    for part in parts:
        inner = loops_for_ever(part.group)
        endless = part.times is not None and part.times[1] is None
        if inner is not None or endless:
            return inner or part.title
    return None
