"""Operator state of an operator's function: given to an instance, and taken after each task."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from keystate._spec.protocol import Answer, Control
from keystate._spec.specs import SubtaskStateSpec
from keystate._types.hash import key_groups_of
from keystate._worker.messages.columns import list_column
from keystate._worker.messages.state_client import StateClient
from keystate._worker.operator_state.operator_states import OperatorStates
from keystate._worker.operator_state.raw_state import RawKeyedState
from keystate._worker.operator_state.shared_map import SharedMapSpec
from keystate._worker.state.journal import Journal
from keystate.functions import CheckpointListener, KeyedStateStore


class OperatorStateKeeper:
    """Keeps a function instance and its subtask's operator state together.

    What an instance holds is state too. So each snapshot gets a tag of its own, which is stored
    with it, and the instance serves the next task only if that begins with this very snapshot.

    With a union list it serves no other task: one that began anew alone, in another worker, would
    take over the elements of all subtasks while the other instances went on with theirs.
    """

    def __init__(
        self,
        function: Any,
        spec: SubtaskStateSpec,
        keyed: KeyedStateStore,
        client: StateClient,
        control: dict[str, Any],
        journal: Callable[[], Journal] | None = None,
    ) -> None:
        self._function = function
        self._tag: str = control[Control.OPERATOR_TAG]
        #: Whether each task has an instance of its own. A map is the same on all subtasks.
        self.is_of_one_task = any(
            union and not isinstance(state, SharedMapSpec) for state, union in spec.lists
        )
        unions = [state.name for state, union in spec.lists if union]
        stored, of_all = client.operator_state(unions)
        restored = json.loads(stored) if stored else {"batch": None, "lists": []}
        # What an instance is restored with was committed. Nobody else is notified of it.
        self._snapshot_of: int | None = restored["batch"] if self.is_of_one_task else None
        specs = {state.name: state for state, _ in spec.lists}
        # Lists that the function does not ask for stay what they are.
        others = [entry for entry in restored["lists"] if entry["name"] not in specs]
        self._unions = {*unions, *(entry["name"] for entry in others if entry["union"])}
        self._raw_keyed: RawKeyedState | None = None
        if spec.raw_keyed:
            most = control[Control.MAX_PARALLELISM]
            # A batch's subtasks have keys of any group.
            groups = range(most)
            if control[Control.STREAMING]:
                place = control[Control.SUBTASK], control[Control.PARALLELISM]
                groups = key_groups_of(*place, most)
            self._raw_keyed = RawKeyedState(groups, client.raw_keyed)
        self._states = OperatorStates(
            specs,
            restored["batch"],
            {entry["name"]: entry["elements"] for entry in restored["lists"]},
            of_all,
            keyed,
            self._raw_keyed,
            control[Control.SUBTASK],
            spec.pickles,
            journal,
        )

    def initialize(self) -> None:
        """Gives the function what its subtask had."""
        self._states.initialize(self._function)
        if self._raw_keyed is not None:
            self._raw_keyed.end_restore()

    def goes_on(self, control: dict[str, Any]) -> bool:
        """Whether a task begins with what this instance has."""
        tag: str = control[Control.OPERATOR_TAG]
        return not self.is_of_one_task and self._tag == tag

    def begin_task(self, control: dict[str, Any]) -> None:
        """Notifies the function that its last batch is committed: the next one has begun."""
        batch = self._snapshot_of
        if batch is not None and batch < control[Control.BATCH_ID]:
            self._snapshot_of = None
            if isinstance(self._function, CheckpointListener):
                self._function.notify_checkpoint_complete(batch)

    def snapshot(self, control: dict[str, Any]) -> dict[str, pa.Array]:
        """The columns with the state after a task."""
        batch, time = control[Control.BATCH_ID], control[Control.PROCESSING_TIME]
        lists = self._states.snapshot(self._function, batch, time)
        self._tag = uuid.uuid4().hex
        self._snapshot_of = batch
        state = {
            "batch": batch,
            "lists": [
                {"name": name, "union": name in self._unions, "elements": elements}
                for name, elements in lists.items()
            ],
        }
        raw = {} if self._raw_keyed is None else self._raw_keyed.take()
        return self._columns(self._tag.encode(), json.dumps(state).encode(), raw)

    def no_snapshot(self) -> dict[str, pa.Array]:
        """The columns of a snapshot, empty."""
        return self._columns(None, None, {})

    def _columns(
        self, tag: bytes | None, state: bytes | None, raw: Mapping[int, bytes | bytearray]
    ) -> dict[str, pa.Array]:
        columns = {
            Answer.OPERATOR_TAG: pa.array([tag], pa.binary()),
            Answer.OPERATOR_STATE: pa.array([state], pa.binary()),
        }
        if self._raw_keyed is not None:
            streams = pa.array(map(bytes, raw.values()), pa.binary())
            columns[Answer.RAW_GROUPS] = list_column(pa.array(raw, pa.int32()))
            columns[Answer.RAW_STREAMS] = list_column(streams)
        return columns
