"""Functions with operator state, and those that hear of checkpoints."""

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
        """A list of which every subtask gets all elements of all subtasks when it is restored.

        A function that has one begins anew with each micro-batch.
        """

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> BroadcastState[K, V]:
        """A map that every subtask is restored with.

        The function keeps it the same on all subtasks: the first one's is stored.
        """


class StatePartitionStreamProvider(Protocol):
    """Gives one raw stream that is restored."""

    def get_stream(self) -> BinaryIO:
        """The stream, from its beginning."""


class KeyGroupStatePartitionStreamProvider(StatePartitionStreamProvider, Protocol):
    """Gives the raw stream of one key group."""

    def get_key_group_id(self) -> int:
        """The key group."""


class OperatorStateCheckpointOutputStream(Protocol):
    """Takes the raw streams of a subtask."""

    def start_new_partition(self) -> None:
        """Begins another stream: what can go to another subtask by itself."""

    def write(self, data: bytes) -> int:
        """Appends to the stream that was begun last; the first one begins by itself."""


class KeyedStateCheckpointOutputStream(Protocol):
    """Takes the raw streams of a subtask's key groups."""

    def get_key_group_list(self) -> Iterable[int]:
        """The key groups of this subtask."""

    def start_new_key_group(self, key_group: int) -> None:
        """Begins a key group's stream, once for each that is to have one."""

    def write(self, data: bytes) -> int:
        """Appends to the stream that was begun last."""


class FunctionInitializationContext(Protocol):
    """What :meth:`CheckpointedFunction.initialize_state` is told."""

    def is_restored(self) -> bool:
        """Whether there is state of an earlier run."""

    def get_restored_checkpoint_id(self) -> int | None:
        """The checkpoint that the state is from; ``None`` when there is none."""

    def get_operator_state_store(self) -> OperatorStateStore:
        """The operator states, with their elements if they are restored."""

    def get_keyed_state_store(self) -> KeyedStateStore:
        """The keyed states, of a function on a keyed stream."""

    def get_raw_operator_state_inputs(self) -> Iterable[StatePartitionStreamProvider]:
        """The raw streams that this subtask is restored with."""

    def get_raw_keyed_state_inputs(self) -> Iterable[KeyGroupStatePartitionStreamProvider]:
        """The raw streams of this subtask's key groups, by ascending group."""


class FunctionSnapshotContext(Protocol):
    """What :meth:`CheckpointedFunction.snapshot_state` is told."""

    def get_checkpoint_id(self) -> int:
        """The checkpoint's number; they ascend."""

    def get_checkpoint_timestamp(self) -> int:
        """The checkpoint's time in ms since the epoch."""

    def get_raw_operator_state_output(self) -> OperatorStateCheckpointOutputStream:
        """Takes raw streams of this subtask, dealt out like the elements of a list."""

    def get_raw_keyed_operator_state_output(self) -> KeyedStateCheckpointOutputStream:
        """Takes raw streams of this subtask's key groups, which go where the groups go."""


class CheckpointedFunction(ABC):
    """A function with operator state; to be mixed into a function or a source."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Gets the operator states, and takes over what they hold when they are restored.

        Called before ``open`` whenever an instance of the function begins, and once on the driver,
        on a copy, to learn which states it has.
        """

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Writes into the operator states what has to be in the checkpoint."""


class ListCheckpointed(ABC, Generic[T]):
    """A function with one list of operator state, spread evenly when parallelism changes."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[T]:
        """Returns the state; a list of one element if it can't be spread."""

    @abstractmethod
    def restore_state(self, state: list[T]) -> None:
        """Takes over this subtask's part of the state. Called before ``open``."""


class CheckpointListener(ABC):
    """Told of checkpoints that count; to be mixed into a function or a source."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called once a batch is in the commit log; a call can be missing after a failure."""
