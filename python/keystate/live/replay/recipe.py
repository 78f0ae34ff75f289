"""Writes a replay as a test of pytest."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import types as T

from keystate._operators.definition import InputRole, Operator
from keystate._spec.specs import DELAY_KEY, resolve_schema
from keystate._types.ddl import quoted
from keystate._worker.calls.function_spec import Style
from keystate.checkpoints.history import value_of
from keystate.errors import DeclarationError
from keystate.functions.timers import set_timer_of
from keystate.testing._job import Clock
from keystate.testing._literals import Literals
from keystate.testing._setup import Setup

#: The function of `keystate.testing` that compares values with NaN.
_SAME = "same_values"
_OTHERS = (InputRole.INITIAL, InputRole.BROADCAST)


@dataclass
class Recipe:
    """All that a replay used.

    Attributes:
        operator: the query's operator.
        setup: the operator in the harness.
        key: the values of the key columns.
        stored: the jar's answer for the key before the first batch; ``None`` for nothing.
        before: the clock before the first batch.
        batches: for each batch, its clock and the key's rows of each input.
    """

    operator: Operator
    setup: Setup
    key: list[Any]
    stored: dict[str, Any] | None
    before: Clock
    batches: list[tuple[Clock, list[list[Any]]]] = field(default_factory=list)

    def write(self, path: str, replay: Any) -> None:
        """Writes the test."""
        Path(path).write_text(self._text(replay), encoding="utf-8")

    def _text(self, replay: Any) -> str:
        write = Literals()
        two = self.operator.second_input is not None
        harness = "KeyedTwoInputHarness" if two else "KeyedProcessHarness"
        key = write(self.key[0] if len(self.key) == 1 else tuple(self.key))
        body = [
            f"def test_batch_{replay.batches[0]}() -> None:",
            f"    key = {key}",
            f"    harness = {harness}(",
            *(f"        {argument}," for argument in self._arguments(write)),
            "    )",
            "    with harness:",
            *(f"        {line}" for line in self._before(write)),
            *(f"        {line}" for line in self._runs(write)),
        ]
        if replay.steps:
            emitted = [row for step in replay.steps for row in step.emitted]
            body.append(f"        assert {_equal('harness.output()', write(emitted))}")
            states, timers = replay.steps[-1].after, replay.steps[-1].timers_after
            for state in self.setup.task.declared.spec.states:
                # An empty state is None, or an empty list or dictionary.
                value = states.get(state.name)
                found = f"harness.state(key, {state.name!r})"
                told = f"not {found}" if value is None else _equal(found, write(value))
                body.append(f"        assert {told}")
            body.append(f"        assert harness.timers(key) == {write(timers)}")
        head = [
            f'"""What key {key} had in batch {replay.batches[0]}, by Keystate\'s replay."""',
            "",
            *write.imports(),
            f"from keystate.testing import {harness}",
        ]
        if any(f"{_SAME}(" in line for line in body):
            head[-1] += f", {_SAME}"
        return "\n".join([*head, "", "", *body]) + "\n"

    def _arguments(self, write: Literals) -> list[str]:
        """The harness's arguments."""
        operator, second = self.operator, self.operator.second_input
        function_spec = operator.function_spec
        if function_spec.style is not Style.PROCESS or (second and second.role in _OTHERS):
            raise DeclarationError(
                "as_test() is for functions of process() of one input or two with keys, without "
                "initial state"
            )
        if function_spec.dead_letters is not None:
            raise DeclarationError("as_test() is for functions without on_error")
        given = [write.function(function_spec.function)]
        inputs = self.setup.inputs
        for each in inputs:
            if each.shape is not None or each.late_output is not None:
                raise DeclarationError("as_test() is for rows without row_type and late_output")
            given += [repr(_ddl(each.row_type)), repr(list(each.keys))]
        given.append(repr(_ddl(resolve_schema(operator.output_schema, "the output schema"))))
        given.append(f"max_parallelism={self.setup.max_parallelism}")
        for i, each in enumerate(inputs, 1):
            marked = [f.name for f in each.row_type.fields if DELAY_KEY in f.metadata]
            if marked:
                given.append(f"event_time{i if second else ''}={marked[0]!r}")
        if second is None and inputs[0].order:
            given.append(f"order_by={list(inputs[0].order)!r}")
        if second is not None and second.role is InputRole.MERGED:
            given.append(f"ordered_by=({inputs[0].order[0]!r}, {inputs[1].order[0]!r})")
        if operator.time_mode != "auto":
            given.append(f"time_mode={operator.time_mode!r}")
        if self.setup.operator.side_outputs:
            raise DeclarationError("as_test() is for a replay without side_outputs")
        return given

    def _before(self, write: Literals) -> list[str]:
        """Lines that set the key's states and timers."""
        lines = []
        if self.before.watermark:
            lines.append(f"harness.advance_watermark({self.before.watermark})")
        if self.before.processing_time:
            lines.append(f"harness.set_processing_time({self.before.processing_time})")
        if self.stored is None:
            return lines
        declared = {state.name: state for state in self.setup.task.declared.spec.states}
        for found in self.stored["states"]:
            value = value_of(found)
            if value is None or found["state"] not in declared:
                continue
            used = ""
            if declared[found["state"]].ttl is not None:
                times = found["times"]
                used = f", used_at={times[0] if found['kind'] == 'value' else times!r}"
            lines.append(f"harness.set_state(key, {found['state']!r}, {write(value)}{used})")
        for timer in self.stored["timers"]:
            given = ", ".join(map(write, set_timer_of(*timer)))
            lines.append(f"harness.set_timer(key, {given})")
        return lines

    def _runs(self, write: Literals) -> list[str]:
        """Lines that run the batches."""
        lines = []
        for clock, inputs in self.batches:
            given = [f"{write(rows)}" for rows in inputs]
            if clock.watermark is not None:
                given.append(f"watermark={clock.watermark}")
            given.append(f"processing_time={clock.processing_time}")
            lines.append(f"harness.process_batch({', '.join(given)})")
        return lines


def _equal(found: str, expected: str) -> str:
    """An expression that compares values; with NaN by a function, since NaN differs from itself."""
    has_nan = 'float("nan")' in expected
    return f"{_SAME}({found}, {expected})" if has_nan else f"{found} == {expected}"


def _ddl(row_type: T.StructType) -> str:
    return ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in row_type.fields)
