"""Functions that users write: code with state that runs for every row.

Names are PyFlink's. A function is pickled once and opened once for each subtask in a worker; it is
not opened again for every micro-batch while that worker lives.
"""

from keystate.functions.asynchronous import (
    AsyncKeyedProcessFunction,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
)
from keystate.functions.base import Function, OutputTag, Results
from keystate.functions.broadcast import (
    BroadcastContext,
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastOnTimerContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyContext,
    ReadOnlyBroadcastContext,
)
from keystate.functions.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateCheckpointOutputStream,
    KeyGroupStatePartitionStreamProvider,
    ListCheckpointed,
    OperatorStateCheckpointOutputStream,
    OperatorStateStore,
    StatePartitionStreamProvider,
)
from keystate.functions.contexts import Clocks, Context, OnTimerContext, TimeDomain, TimerService
from keystate.functions.metrics import Counter, Distribution, Gauge, Meter, MetricGroup
from keystate.functions.process import (
    FilterFunction,
    FlatMapFunction,
    KeyedBatch,
    KeyedBatchFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from keystate.functions.runtime import KeyedStateStore, RuntimeContext
from keystate.functions.two_inputs import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction
from keystate.state.aggregates import AggregateFunction

__all__ = [
    "AggregateFunction",
    "AsyncKeyedProcessFunction",
    "AsyncRetryStrategy",
    "BroadcastContext",
    "BroadcastProcessFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "Clocks",
    "CoFlatMapFunction",
    "CoMapFunction",
    "Context",
    "Counter",
    "Distribution",
    "ExponentialBackoffDelayRetryStrategy",
    "FilterFunction",
    "FixedDelayRetryStrategy",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "Gauge",
    "KeyGroupStatePartitionStreamProvider",
    "KeyedBatch",
    "KeyedBatchFunction",
    "KeyedBroadcastContext",
    "KeyedBroadcastOnTimerContext",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedReadOnlyContext",
    "KeyedStateCheckpointOutputStream",
    "KeyedStateStore",
    "ListCheckpointed",
    "MapFunction",
    "Meter",
    "MetricGroup",
    "OnTimerContext",
    "OperatorStateCheckpointOutputStream",
    "OperatorStateStore",
    "OutputTag",
    "ProcessFunction",
    "ReadOnlyBroadcastContext",
    "ReduceFunction",
    "Results",
    "RuntimeContext",
    "SinkFunction",
    "StatePartitionStreamProvider",
    "TimeDomain",
    "TimerService",
]
