"""Joins of keyed streams in time, which the JVM makes without a worker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from keystate._operators.aggregates import check_rows
from keystate._operators.definition import (
    Input,
    check_late_output,
    check_one_of,
    names_if_read,
    shared_parallelism,
)
from keystate.errors import DeclarationError
from keystate.functions import OutputTag

Direction = Literal["backward", "forward", "nearest"]
How = Literal["left", "inner"]
Wait = Literal["complete", "none"]

#: The side outputs of a join, for messages.
_THERE = "a join has one for late rows, if late_output names it"


@dataclass(frozen=True, kw_only=True)
class AsOfMatching:
    """Which right row belongs to a left one.

    Attributes:
        left_on: the left column with the time.
        right_on: the right column with the time.
        tolerance: in us; ``None`` for any distance.
    """

    left_on: str
    right_on: str
    direction: Direction
    tolerance: int | None
    allow_exact_matches: bool


@dataclass(frozen=True, kw_only=True)
class AsOfOperator:
    """An as-of join; :meth:`keystate.KeyedStream.join_asof` says what its settings are.

    Attributes:
        left: the rows that are joined.
        right: the rows that are looked up.
        side_outputs: the side outputs that are read: at most that for late rows.
    """

    left: Input
    right: Input
    matching: AsOfMatching
    suffix: str
    how: How
    wait: Wait
    deleted: str | None
    late_output: OutputTag | None
    name: str | None
    side_outputs: tuple[OutputTag, ...] = ()

    def check(self) -> None:
        """Raises DeclarationError if a setting is none, or the inputs don't fit."""
        for rows in (self.left, self.right):
            check_rows(rows, "a join as of a time")
        check_one_of("direction", self.matching.direction, ("backward", "forward", "nearest"))
        check_one_of("how", self.how, ("left", "inner"))
        check_one_of("wait", self.wait, ("complete", "none"))
        tolerance = self.matching.tolerance
        if tolerance is not None and tolerance < 0:
            raise DeclarationError(f"the tolerance can't be negative, got {tolerance} us")
        if self.late_output is not None:
            check_late_output(self.late_output, self.left.row_type)

    def to_json(self) -> str:
        """The JSON that the jar reads, of all but the inputs.

        Raises:
            DeclarationError: a side output is read that the operator does not have.
        """
        (late,) = names_if_read(self.side_outputs, (self.late_output,), _THERE)
        match = self.matching
        groups = shared_parallelism((self.left, self.right), ("left", "right"))
        return json.dumps(
            {
                "name": self.name,
                "maxParallelism": groups,
                "leftOn": match.left_on,
                "rightOn": match.right_on,
                "direction": match.direction,
                "tolerance": match.tolerance,
                "exact": match.allow_exact_matches,
                "suffix": self.suffix,
                "inner": self.how == "inner",
                "waits": self.wait == "complete",
                "deleted": self.deleted,
                "lateOutput": late,
            }
        )


@dataclass(frozen=True, kw_only=True)
class JoinAllOperator:
    """A join of streams by how far the times of their rows are apart.

    :func:`keystate.join_all` says what its settings are, and :meth:`keystate.IntervalJoin.between`.

    Attributes:
        inputs: the streams.
        on: the column with the time of each stream's rows; ``None`` for the watermark's.
        rule: how far the times of a result's rows may be apart; or, of two streams, how far the
            second row's is after the first one's at least and at most. In us.
        outer: whether results go out too that lack some streams' rows.
        suffixes: one for each stream.
        side_outputs: the side outputs that are read: at most that for late rows.
    """

    inputs: tuple[Input, ...]
    on: tuple[str | None, ...]
    rule: int | tuple[int, int]
    outer: bool
    suffixes: tuple[str, ...]
    earliest: str | None
    late_output: OutputTag | None
    name: str | None
    side_outputs: tuple[OutputTag, ...] = ()

    def check(self) -> None:
        """Raises DeclarationError if a setting is none, or the inputs don't fit."""
        for rows in self.inputs:
            check_rows(rows, "a join in time")
        if isinstance(self.rule, int):
            if self.rule < 0:
                raise DeclarationError(f"within can't be negative, got {self.rule} us")
        elif self.rule[0] > self.rule[1]:
            raise DeclarationError(f"nothing is between {self.rule[0]} and {self.rule[1]} us")
        for setting, each in (("on", self.on), ("suffixes", self.suffixes)):
            if len(each) != len(self.inputs):
                raise DeclarationError(
                    f"{setting} has one for each of the {len(self.inputs)} streams, got {each}"
                )

    def to_json(self) -> str:
        """The JSON that the jar reads, of all but the inputs.

        Raises:
            DeclarationError: a side output is read that the operator does not have.
        """
        (late,) = names_if_read(self.side_outputs, (self.late_output,), _THERE)
        names = [f"{i + 1}. stream" for i in range(len(self.inputs))]
        return json.dumps(
            {
                "name": self.name,
                "maxParallelism": shared_parallelism(self.inputs, names),
                "on": self.on,
                "rule": self.rule,
                "outer": self.outer,
                "suffixes": self.suffixes,
                "earliest": self.earliest,
                "lateOutput": late,
            }
        )
