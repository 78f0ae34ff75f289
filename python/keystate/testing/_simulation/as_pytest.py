"""Writes what was found as a test of pytest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keystate._kinds import TIMERS
from keystate._spec import resolve_schema
from keystate.errors import DeclarationError
from keystate.testing._literals import Literals
from keystate.testing._simulation.checks import Finding
from keystate.testing._simulation.story import Batch, Event, Happening, Story
from keystate.testing._simulation.subject import Subject

_WIDTH = 92
_SORTED = "sorted(map(repr, {}))"


def as_test(subject: Subject, finding: Finding, results: Callable[..., Any] | None) -> str:
    """The test; empty if there is no story that shows what was found.

    Args:
        subject: the operator.
        finding: what was found.
        results: what the user compares; ``None`` for all results.
    """
    return _Test(subject, finding, results).text() if finding.stories else ""


class _Test:
    def __init__(
        self, subject: Subject, finding: Finding, results: Callable[..., Any] | None
    ) -> None:
        self._subject = subject
        self._finding = finding
        self._results = results
        self._write = Literals()
        self._notes: list[str] = []

    def text(self) -> str:
        finding, name = self._finding, self._finding.invariant.replace(" ", "_")
        self._build = self._named(self._subject.build, "operator")
        # Tags by names of their own: side outputs are long to write.
        self._tags = [f"tag_{i}" for i in range(len(self._subject.side_outputs))]
        self._side = f", side_outputs=[{', '.join(self._tags)}]" if self._tags else ""
        lines = [
            f"{name} = OutputTag({tag.tag_id!r}, {_ddl(tag)!r})"
            for name, tag in zip(self._tags, self._subject.side_outputs)
        ]
        if finding.invariant == "growth":
            lines += self._growth(finding.stories[0])
        else:
            for variable, story in zip(("one", "other"), finding.stories):
                lines += self._story(story, variable)
            if len(finding.stories) == 2:
                lines += self._compared()
        harness = self._subject.harness.__name__
        imports = [*self._write.imports(), f"from keystate.testing import {harness}"]
        if self._tags:
            imports.insert(-1, "from keystate import OutputTag")
        body = "\n".join(f"    {line}" for line in lines)
        head = "\n".join([*self._notes, *imports])
        return f"{head}\n\n\ndef test_{name}() -> None:\n{body}\n"

    def _named(self, thing: Any, otherwise: str) -> str:
        """What code calls something of the user's."""
        if thing is not None:
            try:
                return self._write.function(thing)
            except DeclarationError:
                pass
        self._notes.append(f"# {otherwise}: what simulate() was given; import it here")
        return otherwise

    def _story(self, story: Story, variable: str) -> list[str]:
        """Lines that run a story; a variable has the results, by micro-batch or all."""
        harness = self._subject.harness.__name__
        by_batch = self._finding.invariant not in ("order", "batches")
        lines = [f"harness = {harness}.of({self._build}(){self._side})"]
        if len(self._finding.stories) == 2:
            lines.insert(0, f"{variable} = {'{}' if by_batch else '[]'}")
        backs = {
            max(i - e.number, 0) for i, b in enumerate(story) for e in b.events if _is_back(e, i)
        }
        for i, batch in enumerate(story):
            for event in batch.events:
                lines += self._event(event, story, i, variable)
            if i in backs:
                lines.append(f"older_{i} = harness.snapshot()")
            lines += self._ran(batch, f"{self._into(variable, str(i))}harness")
        if len(self._finding.stories) == 2:
            for tag in self._tags:
                into = self._into(variable, repr(f"side output {tag}"))
                lines.append(f"{into}harness.side_output({tag})")
            if by_batch and self._finding.state is not None:
                lines.append(f"{self._into(variable, repr('state'))}[{self._state()}]")
        return [*lines, "harness.close()"]

    def _into(self, variable: str, part: str) -> str:
        """The beginning of a line that takes results."""
        if len(self._finding.stories) == 1:
            return ""
        by_batch = self._finding.invariant not in ("order", "batches")
        return f"{variable}[{part}] = " if by_batch else f"{variable} += "

    def _event(self, event: Event, story: Story, at: int, variable: str) -> list[str]:
        restore = f"{self._subject.harness.__name__}.restore"
        if event.what is Happening.NEW_WORKER:
            return ["harness.close()  # the worker ends"]
        if event.what is Happening.LOST:
            return [
                f"lost = {restore}(harness.snapshot(), {self._build}(){self._side})",
                *self._ran(story[at], "lost", "  # an attempt that is lost"),
                "lost.close()",
            ]
        if event.what is Happening.RESCALE:
            told = f"parallelism={event.number}{self._side}"
            return [f"harness = {restore}(harness.snapshot(), {self._build}(), {told})"]
        if not _is_back(event, at):
            return []
        back = max(at - event.number, 0)
        again = [
            line
            for i in range(back, at)
            for line in self._ran(story[i], f"{self._into(variable, str(i))}harness")
        ]
        start = f"harness = {restore}(older_{back}, {self._build}(){self._side})"
        return [f"{start}  # from an older state", *again]

    def _ran(self, batch: Batch, before: str, after: str = "") -> list[str]:
        """A call of ``process_batch``, in one line if it fits."""
        given = [[self._write(row) for row in rows] for rows in batch.rows]
        names = [""] * len(given)
        if len(given) == 2 and not self._subject.two_inputs:
            names[1] = "broadcast="
        clocks = [
            f"{name}={getattr(batch, name)}"
            for name in ("watermark", "processing_time")
            if getattr(batch, name) is not None
        ]
        lists = [f"{name}[{', '.join(rows)}]" for name, rows in zip(names, given)]
        line = f"{before}.process_batch({', '.join([*lists, *clocks])}){after}"
        if len(line) <= _WIDTH:
            return [line]
        lines = [f"{before}.process_batch({after}"]
        for name, rows in zip(names, given):
            inner = [f"    {name}[", *(f"        {row}," for row in rows), "    ],"]
            lines += inner if rows else [f"    {name}[],"]
        return [*lines, *(f"    {clock}," for clock in clocks), ")"]

    def _state(self) -> str:
        assert self._finding.state is not None
        name, key = self._finding.state
        if name == TIMERS:
            return f"harness.timers({self._write(key)})"
        return f"harness.state({self._write(key)}, {name!r})"

    def _compared(self) -> list[str]:
        if self._finding.invariant not in ("order", "batches"):
            told = f"[{_SORTED.format('rows')} for rows in {{}}.values()]"
            named = [f"{name} = {told.format(name)}" for name in ("one", "other")]
            return [*named, "assert one == other"]
        if self._results is not None:
            compare = self._named(self._results, "results")
            return [f"assert {compare}(one) == {compare}(other)"]
        return [f"assert {_SORTED.format('one')} == {_SORTED.format('other')}"]

    def _growth(self, story: Story) -> list[str]:
        """The first rounds of a story in which a state grows."""
        harness = self._subject.harness.__name__
        lines = [f"harness = {harness}.of({self._build}(){self._side})", "sizes = []"]
        rounds = 0
        for i, batch in enumerate(story):
            if rounds == 4:
                break
            lines += self._ran(batch, "harness")
            if i + 1 == len(story) or any(story[i + 1].rows):
                lines.append(f"sizes.append(len(repr({self._state()})))")
                rounds += 1
        return [*lines, "harness.close()", "assert sizes[-1] <= sizes[1], sizes"]


def _is_back(event: Event, at: int) -> bool:
    return event.what is Happening.BACK and at > 0


def _ddl(tag: Any) -> str:
    kind = resolve_schema(tag.type, f"side output '{tag.tag_id}'")
    return ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in kind.fields)
