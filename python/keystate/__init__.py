"""Typed keyed state for PySpark Structured Streaming.

>>> import keystate
>>> spark = keystate.configure(SparkSession.builder).getOrCreate()
>>> out = keystate.keyed(df, "key").process(MyFunction(), "key long, average long")
"""

from keystate.admin import rescale
from keystate.backends import FsStateBackend, HashMapStateBackend, MemoryStateBackend, StateBackend
from keystate.errors import (
    CheckpointError,
    ConfigurationError,
    DeclarationError,
    FunctionError,
    KeystateError,
    OutputTypeError,
    StateAccessError,
    StateTypeError,
)
from keystate.functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    TimeDomain,
    TimerService,
)
from keystate.runtime import KeyedStateStore, RuntimeContext
from keystate.session import configure, jar_path, versions
from keystate.state import (
    BYTEWISE,
    DESCENDING,
    NATURAL,
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    FoldingState,
    FoldingStateDescriptor,
    KeyOrder,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    ReducingState,
    ReducingStateDescriptor,
    SortedMapState,
    SortedMapStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from keystate.stream import KeyedStream, keyed

__version__ = versions()["keystate"]

__all__ = [
    "BYTEWISE",
    "DESCENDING",
    "NATURAL",
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "CheckpointError",
    "ConfigurationError",
    "DeclarationError",
    "FilterFunction",
    "FlatMapFunction",
    "FoldingState",
    "FoldingStateDescriptor",
    "FsStateBackend",
    "Function",
    "FunctionError",
    "HashMapStateBackend",
    "KeyOrder",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "KeyedStream",
    "KeystateError",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MemoryStateBackend",
    "MergingState",
    "OutputTypeError",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RuntimeContext",
    "SortedMapState",
    "SortedMapStateDescriptor",
    "State",
    "StateAccessError",
    "StateBackend",
    "StateDescriptor",
    "StateTypeError",
    "TimeDomain",
    "TimerService",
    "ValueState",
    "ValueStateDescriptor",
    "configure",
    "jar_path",
    "keyed",
    "rescale",
    "versions",
]
