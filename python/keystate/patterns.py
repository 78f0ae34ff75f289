"""Patterns of events, with the names of Flink's CEP.

>>> login = keystate.Pattern.begin("login").where(F.col("kind") == "login")
>>> fraud = (
...     login.followed_by("failures").where(F.col("kind") == "fail").times(3)
...     .followed_by("success").where(F.col("kind") == "success").within(minutes=5)
... )
"""

from __future__ import annotations

import dataclasses
import datetime
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import Column

from keystate.errors import DeclarationError

Skips = Literal["none", "others", "any"]
WithinType = Literal["first_and_last", "previous_and_current"]


@dataclass(frozen=True)
class Part:
    """A part of a pattern.

    Attributes:
        name: its name; empty for a group.
        skips: which rows are skipped before it.
        absent: ``"at_once"`` or ``"until_next"`` if its rows must not come.
        group: the parts that are repeated as a whole.
        where: the condition of its rows; ``None`` for any.
        until: the condition that ends its loop.
        times: how many times it comes, at least and at most; the latter is ``None`` for any number.
            ``None`` if that was not said: once.
        optional: whether it may be left out.
        between: which rows are skipped between two of it.
        within: how long after the row before it, in us.
    """

    name: str
    skips: Skips
    absent: Literal["at_once", "until_next"] | None = None
    group: tuple[Part, ...] = ()
    where: Column | None = None
    until: Column | None = None
    times: tuple[int, int | None] | None = None
    optional: bool = False
    greedy: bool = False
    between: Skips = "others"
    within: int | None = None

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"part '{self.name}'" if self.name else "a group"


@dataclass(frozen=True)
class AfterMatchSkipStrategy:
    """Which other matches are left out after a match.

    Attributes:
        kind: ``no_skip``, ``to_next``, ``past_last``, ``to_first`` or ``to_last``.
        part: the part that it skips to.
        needed: whether a match without that part fails the query.
    """

    kind: str
    part: str | None = None
    needed: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """None: all matches count."""
        return AfterMatchSkipStrategy("no_skip")

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Skips matches that begin with the same row."""
        return AfterMatchSkipStrategy("to_next")

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Skips matches that begin before the match ends."""
        return AfterMatchSkipStrategy("past_last")

    @staticmethod
    def skip_to_first(part: str) -> AfterMatchSkipStrategy:
        """Skips matches that begin before the first row of a part."""
        return AfterMatchSkipStrategy("to_first", part)

    @staticmethod
    def skip_to_last(part: str) -> AfterMatchSkipStrategy:
        """Skips matches that begin before the last row of a part."""
        return AfterMatchSkipStrategy("to_last", part)

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fails the query at a match without the part, or that begins with it."""
        return dataclasses.replace(self, needed=True)


@dataclass(frozen=True)
class Pattern:
    """Parts that rows of a key are matched with, one after the other.

    Each method returns a new pattern. A pattern that says what it must not is refused when it is
    applied, by :meth:`keystate.KeyedStream.pattern`, unless that shows at once.

    Attributes:
        parts: the parts.
        skip: what is left out after a match.
        longest: how long a match may take, in us.
    """

    parts: tuple[Part, ...]
    skip: AfterMatchSkipStrategy = AfterMatchSkipStrategy("no_skip")
    longest: int | None = None

    @staticmethod
    def begin(part: str | Pattern, skip: AfterMatchSkipStrategy | None = None) -> Pattern:
        """A pattern that begins with a part.

        Args:
            part: its name, or a pattern, which becomes a group.
            skip: what is left out after a match; by default nothing.
        """
        return Pattern((), skip or AfterMatchSkipStrategy.no_skip())._then(part, "any")

    def next(self, part: str | Pattern) -> Pattern:
        """Adds a part whose row is the very next one."""
        return self._then(part, "none")

    def followed_by(self, part: str | Pattern) -> Pattern:
        """Adds a part whose row is the next one that meets its condition."""
        return self._then(part, "others")

    def followed_by_any(self, part: str | Pattern) -> Pattern:
        """Adds a part whose row is any later one that meets its condition."""
        return self._then(part, "any")

    def not_next(self, part: str) -> Pattern:
        """Adds that the next row does not meet a condition."""
        return dataclasses.replace(self, parts=(*self.parts, Part(part, "none", "at_once")))

    def not_followed_by(self, part: str) -> Pattern:
        """Adds that no row until the next part meets a condition.

        As the last part it needs :meth:`within`: there is a match once that time is over.
        """
        return dataclasses.replace(self, parts=(*self.parts, Part(part, "none", "until_next")))

    def where(self, condition: Column) -> Pattern:
        """Adds a condition to the last part: all of them have to be met.

        Columns are those of the row at hand. ``F.avg("other.amount")`` is over the rows taken
        before as part ``other``, also if that is this part: the row at hand does not count yet.
        """
        last = self._conditioned(condition)
        return self._with(where=condition if last.where is None else last.where & condition)

    def or_(self, condition: Column) -> Pattern:
        """Lets rows of the last part meet this condition instead of those before."""
        last = self._conditioned(condition)
        return self._with(where=condition if last.where is None else last.where | condition)

    def until(self, condition: Column) -> Pattern:
        """Ends the loop of the last part at a row that meets a condition, which is not taken."""
        last = self._last()
        if last.until is not None:
            raise DeclarationError(f"{last.title} of the pattern has two conditions for until")
        return self._with(until=_column(condition))

    def one_or_more(self) -> Pattern:
        """Repeats the last part. There is a match for each number of times."""
        return self._times(1, None)

    def times(self, least: int, most: int | None = None) -> Pattern:
        """Has the last part come `least` times, or `least` to `most` times."""
        repeated = self._times(max(least, 1), least if most is None else most)
        return repeated.optional() if least == 0 and most is not None else repeated

    def times_or_more(self, least: int) -> Pattern:
        """Has the last part come at least so many times."""
        return self._times(least, None)

    def optional(self) -> Pattern:
        """Lets the last part be left out."""
        last = self._last()
        if last.absent:
            raise DeclarationError(f"{last.title} of the pattern is absent: it can't be optional")
        return self._with(optional=True)

    def greedy(self) -> Pattern:
        """Leaves no row to the next part that could be one of the last part."""
        last = self._last()
        if last.group:
            raise DeclarationError("a group of a pattern can't be greedy")
        if last.times is None:
            raise DeclarationError(f"{last.title} of the pattern is greedy, but comes once")
        return self._with(greedy=True)

    def consecutive(self) -> Pattern:
        """Skips no row between two of the last part."""
        return self._between("none")

    def allow_combinations(self) -> Pattern:
        """Skips any rows between two of the last part, also those that meet its condition."""
        return self._between("any")

    def within(
        self,
        duration: datetime.timedelta | None = None,
        *,
        within_type: WithinType = "first_and_last",
        **units: float,
    ) -> Pattern:
        """Says how long a match may take, in event time; the end does not count.

        Args:
            duration: how long; or by `units`.
            within_type: ``"first_and_last"``: from a match's first row to its last one;
                ``"previous_and_current"``: from the row before the last part to that part.
            units: ``minutes=5``, as of a ``timedelta``.
        """
        span = datetime.timedelta(**units) if duration is None else duration
        micros = span // datetime.timedelta(microseconds=1)
        if micros <= 0:
            raise DeclarationError(f"within must be positive, got {span}")
        if within_type == "previous_and_current":
            if self._last().group:
                raise DeclarationError("a group of a pattern has no within of its own")
            return self._with(within=micros)
        if within_type != "first_and_last":
            raise DeclarationError(
                "within_type must be one of first_and_last, previous_and_current, got "
                f"{within_type!r}"
            )
        longest = micros if self.longest is None else min(micros, self.longest)
        return dataclasses.replace(self, longest=longest)

    def _then(self, part: str | Pattern, skips: Skips) -> Pattern:
        if not isinstance(part, Pattern):
            return dataclasses.replace(self, parts=(*self.parts, Part(part, skips)))
        if part.longest is not None:
            raise DeclarationError("a group of a pattern has no within: give it to the whole")
        return dataclasses.replace(self, parts=(*self.parts, Part("", skips, group=part.parts)))

    def _last(self) -> Part:
        return self.parts[-1]

    def _with(self, **changes: Any) -> Pattern:
        last = dataclasses.replace(self._last(), **changes)
        return dataclasses.replace(self, parts=(*self.parts[:-1], last))

    def _conditioned(self, condition: Column) -> Part:
        last = self._last()
        _column(condition)
        if last.group:
            raise DeclarationError("a group of a pattern has no condition: give it to its parts")
        return last

    def _times(self, least: int, most: int | None) -> Pattern:
        last = self._last()
        if last.absent:
            raise DeclarationError(f"{last.title} of the pattern is absent: it can't be repeated")
        if last.times is not None:
            raise DeclarationError(f"{last.title} of the pattern has two numbers of times")
        return self._with(times=(least, most))

    def _between(self, between: Skips) -> Pattern:
        last = self._last()
        name = "consecutive" if between == "none" else "allow_combinations"
        if last.times is None:
            raise DeclarationError(f"{last.title} of the pattern is {name}, but comes once")
        if last.between != "others":
            raise DeclarationError(f"{last.title} of the pattern is {name}, and something else")
        return self._with(between=between)


def _column(condition: Any) -> Column:
    if not isinstance(condition, Column):
        raise DeclarationError(f"a condition is a Column, got {condition!r}")
    return condition
