"""Functions with operator state, and functions that are notified of checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import BinaryIO, Generic, Protocol, TypeVar

from keystate.functions.runtime import KeyedStateStore
from keystate.state import (
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
)
from keystate.state.aggregates import AggregateFunction as AggregateFunction

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class OperatorStateStore(Protocol):
    """Gives a function its operator states, which belong to the subtask, not to a key."""

    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A list whose elements are spread evenly over the subtasks when their number changes."""

    def get_union_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A list that each subtask restores with all elements of all subtasks.

        A function with such a list is opened anew for each micro-batch.
        """

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> BroadcastState[K, V]:
        """A map that every subtask restores.

        The function must keep it the same on all subtasks: only the first subtask's map is stored.
        """


class StatePartitionStreamProvider(Protocol):
    """Gives one restored raw stream."""

    def get_stream(self) -> BinaryIO:
        """The stream, from its beginning."""


class KeyGroupStatePartitionStreamProvider(StatePartitionStreamProvider, Protocol):
    """Gives the raw stream of one key group."""

    def get_key_group_id(self) -> int:
        """The key group."""


class OperatorStateCheckpointOutputStream(Protocol):
    """Takes the raw streams of a subtask."""

    def start_new_partition(self) -> None:
        """Begins another stream; each stream can move to another subtask on its own."""

    def write(self, data: bytes) -> int:
        """Appends to the newest stream; the first stream begins without a call."""


class KeyedStateCheckpointOutputStream(Protocol):
    """Takes the raw streams of a subtask's key groups."""

    def get_key_group_list(self) -> Iterable[int]:
        """The key groups of this subtask."""

    def start_new_key_group(self, key_group: int) -> None:
        """Begins a key group's stream; call it once for each group with a stream."""

    def write(self, data: bytes) -> int:
        """Appends to the newest stream."""


class FunctionInitializationContext(Protocol):
    """The context of :meth:`CheckpointedFunction.initialize_state`."""

    def is_restored(self) -> bool:
        """Whether there is state of an earlier run."""

    def get_restored_checkpoint_id(self) -> int | None:
        """The id of the checkpoint that the state is from; ``None`` without one."""

    def get_operator_state_store(self) -> OperatorStateStore:
        """The operator states, with their elements if they are restored."""

    def get_keyed_state_store(self) -> KeyedStateStore:
        """The keyed states, if the function runs on a keyed stream."""

    def get_raw_operator_state_inputs(self) -> Iterable[StatePartitionStreamProvider]:
        """The raw streams that this subtask restores."""

    def get_raw_keyed_state_inputs(self) -> Iterable[KeyGroupStatePartitionStreamProvider]:
        """The raw streams of this subtask's key groups, by ascending group."""


class FunctionSnapshotContext(Protocol):
    """The context of :meth:`CheckpointedFunction.snapshot_state`."""

    def get_checkpoint_id(self) -> int:
        """The checkpoint's id; each checkpoint has a greater id than the one before."""

    def get_checkpoint_timestamp(self) -> int:
        """The checkpoint's time in ms since the epoch."""

    def get_raw_operator_state_output(self) -> OperatorStateCheckpointOutputStream:
        """Takes raw streams of this subtask; they are spread like the elements of a list."""

    def get_raw_keyed_operator_state_output(self) -> KeyedStateCheckpointOutputStream:
        """Takes raw streams of this subtask's key groups; a stream moves with its group."""


class CheckpointedFunction(ABC):
    """Gives a function or a source operator state; inherit from it too."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Gets the operator states, and reads their elements when they are restored.

        Called before ``open`` whenever an instance of the function begins. Also called once on the
        driver, on a copy, where Keystate learns which states the function has.
        """

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Writes the data for the checkpoint into the operator states."""


class ListCheckpointed(ABC, Generic[T]):
    """A function with one list of operator state, spread evenly when parallelism changes."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[T]:
        """Returns the state; a list of one element if it can't be spread."""

    @abstractmethod
    def restore_state(self, state: list[T]) -> None:
        """Takes over this subtask's part of the state. Called before ``open``."""


class CheckpointListener(ABC):
    """Notifies a function or a source of committed checkpoints; inherit from it too."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called after a batch is in the commit log; after a failure the call can be missing."""
