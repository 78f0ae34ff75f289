"""Operator state and raw state in memory, which a query's JVM keeps for each subtask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from keystate._spec.protocol import Answer, Control
from keystate._spec.specs import OperatorSpec
from keystate._types.hash import key_groups_of
from keystate._worker.messages.columns import INTEGERS, Columns
from keystate._worker.messages.state_client import OWN_CLIENT
from keystate._worker.operator_state.operator_states import redistribute


class SubtaskClient:
    """Answers one subtask's questions, as a query's side channel does."""

    generation = 0

    def __init__(self, states: OperatorStates, subtask: int) -> None:
        self._states = states
        self._subtask = subtask

    def operator_state(self, unions: list[str]) -> tuple[str, dict[str, list[str]]]:
        """The subtask's state as JSON, empty when there is none, and lists of all subtasks."""
        return self._states.restored(self._subtask, unions)

    def raw_keyed(self) -> Iterator[tuple[int, bytes]]:
        """The raw streams of the subtask's key groups."""
        groups = self._states.groups(self._subtask)
        return ((g, self._states.raw[g]) for g in sorted(self._states.raw) if g in groups)

    def close(self) -> None:
        """There is nothing to close."""


class OperatorStates:
    """The operator state of all subtasks, and the raw streams of all key groups."""

    def __init__(self, spec: OperatorSpec, parallelism: int, max_parallelism: int) -> None:
        self._spec = spec.subtask_state
        self._max_parallelism = max_parallelism
        self._states: list[dict[str, Any] | None] = [None] * parallelism
        self._tags = [""] * parallelism
        self.raw: dict[int, bytes] = {}

    def control(self, subtask: int) -> dict[str, Any]:
        """The description of a subtask's state that its task gets."""
        if self._spec is None:
            return {}
        return {Control.OPERATOR_TAG: self._tags[subtask], OWN_CLIENT: SubtaskClient(self, subtask)}

    def groups(self, subtask: int) -> range:
        """The key groups of a subtask."""
        return key_groups_of(subtask, len(self._states), self._max_parallelism)

    def restored(self, subtask: int, unions: list[str]) -> tuple[str, dict[str, list[str]]]:
        """The state that an instance restores: its own lists, and the union lists of all."""
        own = self._states[subtask]
        if own is None:
            return "", {}
        lists = [each for state in self._states if state for each in state["lists"]]
        of_all = {
            name: [e for each in lists if each["name"] == name for e in each["elements"]]
            for name in unions
        }
        return json.dumps(own), of_all

    def apply(self, subtask: int, last: Columns) -> None:
        """Takes in a task's last answer."""
        state, tag = last.bytes_of(Answer.OPERATOR_STATE), last.bytes_of(Answer.OPERATOR_TAG)
        assert state is not None and tag is not None
        self._states[subtask] = json.loads(state)
        self._tags[subtask] = tag.decode()
        if self._spec is not None and self._spec.raw_keyed:
            for group in self.groups(subtask):
                self.raw.pop(group, None)
            groups = INTEGERS.decode(last.elements(Answer.RAW_GROUPS))
            self.raw.update(zip(groups, last.elements(Answer.RAW_STREAMS).to_pylist()))

    def snapshot(self) -> dict[str, Any]:
        """All of it; can be pickled."""
        return {"subtasks": json.loads(json.dumps(self._states)), "raw": dict(self.raw)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restores a snapshot, spread again if the number of subtasks has changed."""
        old = snapshot["subtasks"]
        self.raw = dict(snapshot["raw"])
        if len(old) == len(self._states):
            self._states = json.loads(json.dumps(old))
            return
        there = [state for state in old if state is not None]
        if not there:
            return
        unions = {each["name"] for state in there for each in state["lists"] if each["union"]}
        before = [
            {each["name"]: each["elements"] for each in state["lists"]} if state else {}
            for state in old
        ]
        batch = max(state["batch"] for state in there)
        for i, part in enumerate(redistribute(before, unions, len(self._states))):
            # All of a union list is read from all subtasks: one has it.
            lists = [
                {
                    "name": name,
                    "union": name in unions,
                    "elements": elements if i == 0 or name not in unions else [],
                }
                for name, elements in part.items()
            ]
            self._states[i] = {"batch": batch, "lists": lists}
