"""The result of a replay: its steps, and how its end differs from the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from keystate._jvm import bridge
from keystate._types.canonical import same
from keystate._types.codec import shorten
from keystate._types.plain import to_json
from keystate.checkpoints.differences import changed_parts, moment
from keystate.checkpoints.shown import Shown
from keystate.functions.timers import SetTimer
from keystate.state.kinds import TIMERS

Timers = list[SetTimer]


@dataclass(frozen=True)
class Step:
    """A row that the function processed, a timer that fired, or broadcast elements.

    The broadcast elements of a batch, which come before its rows, are a step if they changed the
    key's states or timers.

    Attributes:
        batch: the micro-batch.
        input: the index of the row's input, 0 or 1; for initial state it is 1.
        row: the row; for a function of batches the list of all its rows; ``None`` for a timer and
            for broadcast elements.
        timer: the timer's domain and its time in ms, and of a window's timer the window's start and
            end; else ``None``.
        before: the states' values before the step, by name, without states that have nothing.
        after: the states' values after the step.
        timers_before: the timers that were set before: domains and times in ms.
        timers_after: the timers that are set after.
        emitted: the rows of the main output.
        side: the rows of the wanted side outputs, by the tag's id.
    """

    batch: int
    input: int
    row: Any
    timer: SetTimer | None
    before: dict[str, Any]
    after: dict[str, Any]
    timers_before: Timers
    timers_after: Timers
    emitted: list[Row]
    side: dict[str, list[Row]] = field(default_factory=dict)

    def changes(self) -> list[str]:
        """The changes of the step, one line for each part of a state."""
        lines = []
        for name in dict.fromkeys([*self.before, *self.after]):
            was, now = self.before.get(name), self.after.get(name)
            if not same(was, now):
                lines += changed_parts(name, was, now)
        return lines + changed_parts(TIMERS, self.timers_before, self.timers_after)

    def what(self) -> str:
        """The row or the timer, in one line."""
        if self.timer is None and self.row is None:
            return "broadcast elements"
        if self.timer is None:
            which = f"input {self.input + 1}: " if self.input else ""
            return f"{which}{shorten(self.row)}"
        domain, time = self.timer
        return f"timer {domain.name.lower().replace('_', ' ')} {moment(time)}"

    def results(self) -> list[str]:
        """The results of the step, one line for each row."""
        lines = [shorten(row) for row in self.emitted]
        return lines + [f"{tag}: {shorten(row)}" for tag, rows in self.side.items() for row in rows]


_REPLAYED = (
    "{name}: nothing in the checkpoint, replayed {now}",
    "{name}: {was} in the checkpoint, replayed nothing",
    "{name}: {was} in the checkpoint, replayed {now}",
)


@dataclass(frozen=True)
class Difference:
    """A state that has another value after a replayed batch than in the checkpoint.

    Attributes:
        batch: the first micro-batch with a difference.
        state: the state's name; ``$timers`` for the timers.
        stored: the checkpoint's value; ``None`` for nothing.
        replayed: the replay's value.
        step: the step to look at. It changed the differing part: the state, an entry of a map, or
            an element of a list. It is the last such step that changed the stored value, or else
            the first such step. ``None`` if no step of the batch changed the part.
    """

    batch: int
    state: str
    stored: Any
    replayed: Any
    step: Step | None

    def __str__(self) -> str:
        differing = changed_parts(self.state, self.stored, self.replayed, _REPLAYED)
        by = "no step of the batch" if self.step is None else self.step.what()
        return f"batch {self.batch}: {'; '.join(differing)} (changed by {by})"


@dataclass
class Replay(Shown):
    """Micro-batches that have run again for a key: it prints, and shows itself in a notebook.

    Attributes:
        key: the key.
        batches: the micro-batches.
        steps: what happened, in order.
        differences: the differences from the checkpoint in the first batch that has some.
        committed: whether all the batches are committed; else there is nothing to compare the last
            one with.
        late: how many rows were late, so that the function did not get them.
        unrecorded: the clocks and random numbers that the function used itself, and where: they
            differ in a replay.
    """

    key: Any
    batches: list[int]
    steps: list[Step]
    differences: list[Difference]
    committed: bool
    late: int
    unrecorded: list[str]
    _recipe: Any = field(repr=False)

    @property
    def same(self) -> bool:
        """Whether the key has the same after each batch as in the checkpoint."""
        return not self.differences

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> Step:
        return self.steps[index]

    def first_difference(self, other: Replay) -> tuple[Step | None, Step | None] | None:
        """The first steps that are not the same here and in a replay with another function.

        Returns:
            This replay's step and the other's, with ``None`` for a missing step. If all steps are
            the same, only ``None``.
        """
        for i in range(max(len(self), len(other))):
            mine = self[i] if i < len(self) else None
            theirs = other[i] if i < len(other) else None
            if not same(mine, theirs):
                return mine, theirs
        return None

    def verdict(self) -> str:
        """Whether the function gives the same as before, in one or several lines."""
        return "\n".join([self._compared(), *told_of_unrecorded(self.unrecorded)])

    def _compared(self) -> str:
        if self.differences:
            told = "\n".join(f"  {one}" for one in self.differences)
            return f"The function gives something else than the checkpoint has:\n{told}"
        if not self.committed:
            return "The batch is not committed: there is nothing to compare it with."
        return "The function gives what it gave: states and timers are those of the checkpoint."

    def as_test(self, path: str) -> None:
        """Writes a pytest that runs the same rows with the harness and expects the same states.

        The test imports the function, and begins with the key's state before the first batch. It
        expects the results of the replay: correct the function first, or the expectations in the
        file.

        Args:
            path: the file to write.

        Raises:
            DeclarationError: a test can't import the function, or the function is of another kind
                than those of ``process`` with one input or two.
        """
        self._recipe.write(path, self)

    def to_df(self, spark: SparkSession | None = None) -> DataFrame:
        """The steps as a DataFrame: rows, timers, states and results as JSON.

        Args:
            spark: the session; by default the active one.
        """
        return as_frame(self.as_rows(), COLUMNS, spark)

    def as_rows(self) -> list[tuple[Any, ...]]:
        """The steps as tuples, the rows of :meth:`to_df`."""
        return [
            (
                step.batch,
                i,
                step.input,
                None if step.row is None else json_of(step.row),
                _json_of_timers([step.timer])[0] if step.timer else None,
                json.dumps({n: to_json(value) for n, value in step.before.items()}),
                json.dumps({n: to_json(value) for n, value in step.after.items()}),
                _json_of_timers(step.timers_after),
                [json_of(row) for row in step.emitted],
            )
            for i, step in enumerate(self.steps)
        ]


COLUMNS = (
    "batch long, step long, input int, row string, timer string, before string, after string, "
    "timers array<string>, emitted array<string>"
)


def as_frame(rows: list[tuple[Any, ...]], columns: str, spark: SparkSession | None) -> DataFrame:
    """Rows as a DataFrame.

    Args:
        rows: the rows.
        columns: their columns, as DDL.
        spark: the session; ``None`` for the active one.
    """
    session = bridge.session_or_active(spark, "to_df")
    return session.createDataFrame(rows, columns)


def told_of_unrecorded(calls: list[str]) -> list[str]:
    """The lines of a verdict about clocks and random numbers, which a replay can't repeat."""
    if not calls:
        return []
    told = "The function looks at clocks or random numbers of its own, which are others now:"
    return [told, *(f"  {call}" for call in calls)]


def json_of(value: Any) -> str:
    """A key, row or state as JSON."""
    return json.dumps(to_json(value))


def _json_of_timers(timers: Timers) -> list[str]:
    return [json.dumps([domain.name, *rest]) for domain, *rest in timers]
