"""Writes what was found as a test of pytest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keystate._spec.specs import resolve_schema
from keystate.errors import DeclarationError
from keystate.state.kinds import TIMERS
from keystate.testing._literals import Literals
from keystate.testing._simulation.invariants import Finding
from keystate.testing._simulation.schedule import Batch, Event, EventKind, Schedule
from keystate.testing._simulation.system_under_test import SystemUnderTest

_WIDTH = 92
_SORTED = "sorted(map(repr, {}))"


def as_test(system: SystemUnderTest, finding: Finding, results: Callable[..., Any] | None) -> str:
    """The test; empty if there is no schedule that shows what was found.

    Args:
        system: the operator.
        finding: what was found.
        results: what the user compares; ``None`` for all results.
    """
    return _Test(system, finding, results).text() if finding.schedules else ""


class _Test:
    def __init__(
        self, system: SystemUnderTest, finding: Finding, results: Callable[..., Any] | None
    ) -> None:
        self._system = system
        self._finding = finding
        self._results = results
        self._write = Literals()
        self._notes: list[str] = []
        self._harness = system.harness.__name__
        self._compares = len(finding.schedules) == 2
        self._by_batch = finding.invariant not in ("order", "batches")

    def text(self) -> str:
        finding, name = self._finding, self._finding.invariant.replace(" ", "_")
        self._build = self._named(self._system.build, "operator")
        # Tags by names of their own: side outputs are long to write.
        self._tags = [f"tag_{i}" for i in range(len(self._system.side_outputs))]
        self._side = f", side_outputs=[{', '.join(self._tags)}]" if self._tags else ""
        lines = [
            f"{name} = OutputTag({tag.tag_id!r}, {_ddl(tag)!r})"
            for name, tag in zip(self._tags, self._system.side_outputs)
        ]
        if finding.invariant == "growth":
            lines += self._growth(finding.schedules[0])
        else:
            for variable, schedule in zip(("one", "other"), finding.schedules):
                lines += self._schedule(schedule, variable)
            if self._compares:
                lines += self._compared()
        imports = [*self._write.imports(), f"from keystate.testing import {self._harness}"]
        if self._tags:
            imports.insert(-1, "from keystate import OutputTag")
        body = "\n".join(f"    {line}" for line in lines)
        head = "\n".join([*self._notes, *imports])
        return f"{head}\n\n\ndef test_{name}() -> None:\n{body}\n"

    def _named(self, thing: Any, otherwise: str) -> str:
        """The code that names something of the user's."""
        if thing is not None:
            try:
                return self._write.function(thing)
            except DeclarationError:
                pass
        self._notes.append(f"# {otherwise}: what simulate() was given; import it here")
        return otherwise

    def _schedule(self, schedule: Schedule, variable: str) -> list[str]:
        """Lines that run a schedule; a variable has the results, by micro-batch or all."""
        lines = [f"harness = {self._harness}.of({self._build}(){self._side})"]
        if self._compares:
            lines.insert(0, f"{variable} = {'{}' if self._by_batch else '[]'}")
        restored = {_restored(e, i) for i, batch in enumerate(schedule) for e in batch.events}
        for i, batch in enumerate(schedule):
            for event in batch.events:
                lines += self._event(event, schedule, i, variable)
            if i in restored:
                lines.append(f"older_{i} = harness.snapshot()")
            lines += self._ran(batch, f"{self._into(variable, str(i))}harness")
        if self._compares:
            for name, tag in zip(self._tags, self._system.side_outputs):
                into = self._into(variable, repr(f"side output {name}"))
                pairs = f"[({tag.tag_id!r}, row) for row in harness.side_output({name})]"
                lines.append(f"{into}{pairs}")
            if self._by_batch and self._finding.state is not None:
                lines.append(f"{self._into(variable, repr('state'))}[{self._state()}]")
        return [*lines, "harness.close()"]

    def _into(self, variable: str, part: str) -> str:
        """The beginning of a line that takes results."""
        if not self._compares:
            return ""
        return f"{variable}[{part}] = " if self._by_batch else f"{variable} += "

    def _event(self, event: Event, schedule: Schedule, at: int, variable: str) -> list[str]:
        restore = f"{self._harness}.restore"
        if event.kind is EventKind.WORKER_RESTART:
            return ["harness.close()  # the worker ends"]
        if event.kind is EventKind.LOST_ATTEMPT:
            return [
                f"lost = {restore}(harness.snapshot(), {self._build}(){self._side})",
                *self._ran(schedule[at], "lost", "  # an attempt that is lost"),
                "lost.close()",
            ]
        if event.kind is EventKind.RESCALE:
            arguments = f"{self._build}(), parallelism={event.number}{self._side}"
            return [f"harness = {restore}(harness.snapshot(), {arguments})"]
        first = _restored(event, at)
        if first is None:
            return []
        again = [
            line
            for i in range(first, at)
            for line in self._ran(schedule[i], f"{self._into(variable, str(i))}harness")
        ]
        start = f"harness = {restore}(older_{first}, {self._build}(){self._side})"
        return [f"{start}  # from an older state", *again]

    def _ran(self, batch: Batch, before: str, after: str = "") -> list[str]:
        """A call of ``process_batch``, in one line if it fits."""
        given = [[self._write(row) for row in rows] for rows in batch.rows]
        names = [""] * len(given)
        if len(given) == 2 and not self._system.two_inputs:
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
        if self._by_batch:
            rows = f"[{_SORTED.format('rows')} for rows in {{}}.values()]"
            lines = [f"{name} = {rows.format(name)}" for name in ("one", "other")]
            return [*lines, "assert one == other"]
        if self._results is not None:
            compare = self._named(self._results, "results")
            return [f"assert {compare}(one) == {compare}(other)"]
        return [f"assert {_SORTED.format('one')} == {_SORTED.format('other')}"]

    def _growth(self, schedule: Schedule) -> list[str]:
        """The first rounds of a schedule in which a state grows."""
        lines = [f"harness = {self._harness}.of({self._build}(){self._side})", "sizes = []"]
        rounds = 0
        for i, batch in enumerate(schedule):
            if rounds == 4:
                break
            lines += self._ran(batch, "harness")
            if i + 1 == len(schedule) or any(schedule[i + 1].rows):
                lines.append(f"sizes.append(len(repr({self._state()})))")
                rounds += 1
        return [*lines, "harness.close()", "assert sizes[-1] <= sizes[1], sizes"]


def _restored(event: Event, at: int) -> int | None:
    """The micro-batch from which on an event before another one restores the state."""
    return max(at - event.number, 0) if event.kind is EventKind.RESTORE and at > 0 else None


def _ddl(tag: Any) -> str:
    kind = resolve_schema(tag.type, f"side output '{tag.tag_id}'")
    return ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in kind.fields)
