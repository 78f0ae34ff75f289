"""Functions that a user writes: what runs for every row, with state.

Names are PyFlink's. A function is pickled once and opened once for each subtask in a worker; it is
not opened again for every micro-batch while that worker lives.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from keystate._type_variables import IN, IN1, IN2, KEY, OUT, KEY_co
from keystate.aggregates import AggregateFunction as AggregateFunction
from keystate.aggregates import Reducer
from keystate.runtime import KeyedStateStore, RuntimeContext
from keystate.state import (
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    StateDescriptor,
    TypeLike,
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class OutputTag:
    """Names a side output: ``yield tag, value`` emits to it, beside the main output.

    Args:
        tag_id: its name, which is what counts: tags of the same name are the same.
        type: the rows it takes: DDL, DataType or dataclass.
    """

    def __init__(self, tag_id: str, type: TypeLike) -> None:
        if not tag_id:
            raise ValueError("a side output needs a name: OutputTag('late', 'key long, n long')")
        self.tag_id = tag_id
        self.type = type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type!r})"


#: What a function may return or yield.
Results: TypeAlias = Iterable[OUT | tuple[OutputTag, Any]] | OUT | tuple[OutputTag, Any] | None


class Function:
    """Base of all functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepares the function; the place to get its states.

        Called once for a subtask in a worker, and once on the driver, on a copy of the function, to
        learn which states it has.
        """

    def close(self) -> None:
        """Releases what ``open`` took.

        Called after a batch query's task, or when a worker lets the function go; not by a worker
        that is killed.
        """


class Context(Protocol[KEY_co]):
    """What :meth:`KeyedProcessFunction.process_element` is told of the row's surroundings.

    Valid only during the call.
    """

    def get_current_key(self) -> KEY_co:
        """The key: the bare value for one key column, a Row for several."""

    def timestamp(self) -> int | None:
        """The row's event time in ms since the epoch.

        ``None`` if the column is null in this row, if a stream has no watermark, or if for a batch
        DataFrame no ``event_time`` was told.
        """

    def timer_service(self) -> TimerService:
        """The clocks, and the key's timers."""


class TimeDomain(enum.Enum):
    """Which clock a timer goes by."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class OnTimerContext(Context[KEY_co], Protocol[KEY_co]):
    """What :meth:`KeyedProcessFunction.on_timer` is told; ``timestamp()`` is the timer's time."""

    def time_domain(self) -> TimeDomain:
        """Which clock the timer goes by."""


class _Clocks(Protocol):
    def current_watermark(self) -> int | None:
        """The watermark in ms since the epoch; ``None`` when the input has none."""

    def current_processing_time(self) -> int:
        """The time of the micro-batch in ms since the epoch, the same again when it is replayed.

        In real-time mode it is the present time.
        """


class TimerService(_Clocks, Protocol):
    """The operator's clocks, and the timers of the current key.

    A key has any number of timers; setting one that is set already changes nothing. A timer fires
    once, after the rows of the first micro-batch whose clock has passed it: the watermark, or the
    micro-batch's time. That may be the micro-batch that sets it. A key's timers fire in the order
    of their times. One that a timer sets at or before its own time waits for the next micro-batch.
    In a batch query all of them fire when the input has ended.
    """

    def register_event_time_timer(self, timestamp: int) -> None:
        """Sets a timer for when the watermark reaches `timestamp`, in ms since the epoch."""

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Sets a timer for the first micro-batch at or after `timestamp`, in ms since the epoch.

        A running query has one at the next trigger, with or without rows; a restarted query, once
        it has had rows. Under ``availableNow`` it ends when no timer is due.
        """

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer; harmless when it is not set."""

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer; harmless when it is not set."""


class ProcessFunction(Function, ABC, Generic[IN, OUT]):
    """A function of one row of a stream without keys, with any number of results."""

    @abstractmethod
    def process_element(self, value: IN, ctx: Context) -> Results[OUT]:
        """Processes one row; results as for :meth:`KeyedProcessFunction.process_element`."""


class SinkFunction(Function, ABC, Generic[IN]):
    """Takes rows out of the query.

    A micro-batch that failed is run again, so a row can come more than once. To write each only
    once, write rows by an id, or keep them until :class:`CheckpointListener` says that their batch
    counts.
    """

    @abstractmethod
    def invoke(self, value: IN, context: Context) -> None:
        """Takes one row."""


class KeyedProcessFunction(Function, ABC, Generic[KEY, IN, OUT]):
    """A function of one row and its key's state, with any number of results.

    ``KeyedProcessFunction[str, Trade, Alert]`` tells type checkers its key, row and result.
    """

    @abstractmethod
    def process_element(self, value: IN, ctx: Context[KEY]) -> Results[OUT]:
        """Processes one row.

        Returns or yields any number of results: Row, tuple, dict or dataclass, or a bare value for
        a one-column schema; ``None`` for no result. A list, an iterator or a generator is many
        results, a tuple is one. A pair of an :class:`OutputTag` and a result goes to a side output.
        A result is taken as it is when it is yielded or returned: it may change afterwards.

        Raises:
            OutputTypeError: a result does not fit the output schema; not in the function itself.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext[KEY]) -> Results[OUT]:
        """Called when a timer fires, with its time in ms and its key's state; results as above."""
        return None

    def process_initial_state(self, row: Any, ctx: Context) -> None:
        """Takes one row of the initial state that :meth:`keystate.KeyedStream.process` is given.

        States and timers are those of the row's key. Called for all of these rows before the first
        row of the stream, in the query's first micro-batch only. It emits nothing.
        ``ctx.timestamp()`` is ``None``.
        """


class ReadOnlyBroadcastContext(_Clocks, Protocol):
    """What :meth:`BroadcastProcessFunction.process_element` is told. Valid only during the call."""

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """A broadcast state, to be read."""

    def timestamp(self) -> int | None:
        """The row's event time in ms since the epoch; ``None`` when its input has no watermark."""


class KeyedReadOnlyContext(ReadOnlyBroadcastContext, Context[KEY_co], Protocol[KEY_co]):
    """What :meth:`KeyedBroadcastProcessFunction.process_element` is told."""


class KeyedBroadcastOnTimerContext(
    KeyedReadOnlyContext[KEY_co], OnTimerContext[KEY_co], Protocol[KEY_co]
):
    """What :meth:`KeyedBroadcastProcessFunction.on_timer` is told."""


class BroadcastContext(_Clocks, Protocol):
    """What ``process_broadcast_element`` is told. Valid only during the call."""

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> BroadcastState[K, V]:
        """A broadcast state, to be read and changed."""

    def timestamp(self) -> int | None:
        """The element's event time in ms; ``None`` when the broadcast stream has no watermark."""


class KeyedBroadcastContext(BroadcastContext, Protocol):
    """What :meth:`KeyedBroadcastProcessFunction.process_broadcast_element` is told."""

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]
    ) -> None:
        """Calls ``function(key, state)`` for every key of this subtask that has the state.

        The state is the one that ``open`` got by this descriptor, at that key, and can be changed.
        What has expired does not count. Keys come in no particular order.
        """


class BroadcastProcessFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """A function of one row and of broadcast state, without keys."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyBroadcastContext) -> Results[OUT]:
        """Processes one row; results as for :meth:`KeyedProcessFunction.process_element`."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastContext) -> Results[OUT]:
        """Processes one broadcast element, on every subtask.

        Called before the rows of the same micro-batch, in the same order on all subtasks. What it
        emits is emitted by each subtask.
        """


class KeyedBroadcastProcessFunction(Function, ABC, Generic[KEY, IN1, IN2, OUT]):
    """A function of one row, its key's state, and broadcast state."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedReadOnlyContext[KEY]) -> Results[OUT]:
        """Processes one row; results as for :meth:`KeyedProcessFunction.process_element`."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastContext) -> Results[OUT]:
        """Processes one broadcast element on every subtask, without a current key and timers.

        Called before the rows of the same micro-batch, in the same order on all subtasks. What it
        emits is emitted by each subtask.
        """

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastOnTimerContext[KEY]) -> Results[OUT]:
        """Called when a timer fires, as for :class:`KeyedProcessFunction`."""
        return None


@dataclass(frozen=True)
class KeyedBatch:
    """Rows for a :class:`KeyedBatchFunction`, and their keys.

    Attributes:
        rows: the input's columns.
        keys: the key columns, each key once.
        key_of_row: for each row the index of its key in `keys`, int32.
    """

    rows: pa.RecordBatch
    keys: pa.RecordBatch
    key_of_row: pa.Array


class KeyedBatchFunction(Function, ABC):
    """A function of many rows at once and the states of their keys, as Arrow columns.

    It has value states only. There ``value()`` gives an array with a value, null or the default for
    each key in `batch.keys`, and ``update(values)`` takes one in the same order; nulls clear.
    """

    @abstractmethod
    def process_batch(self, batch: KeyedBatch, ctx: Context) -> Any:
        """Processes some rows of a micro-batch; how many at a time is not defined.

        The rows of a key come in the same order as in ``process_element``. Returns the results as
        Arrow table, record batch or dictionary of columns, with the output schema's columns by
        name; ``None`` for none.
        """


class MapFunction(Function, ABC, Generic[IN, OUT]):
    """One result for each row."""

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Returns the result."""


class FlatMapFunction(Function, ABC, Generic[IN, OUT]):
    """Any number of results for each row."""

    @abstractmethod
    def flat_map(self, value: IN) -> Results[OUT]:
        """Returns or yields the results, as :meth:`KeyedProcessFunction.process_element` does."""


class FilterFunction(Function, ABC, Generic[IN]):
    """Keeps some of the rows."""

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Returns whether to keep the row."""


class ReduceFunction(Function, Reducer):
    """Combines two values into one of the same type."""


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
