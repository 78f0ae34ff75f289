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
    TimerService,
)
from keystate.runtime import KeyedStateStore, RuntimeContext
from keystate.session import configure, jar_path, versions
from keystate.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    FoldingState,
    FoldingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from keystate.stream import KeyedStream, keyed

__version__ = versions()["keystate"]

__all__ = [
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
    "State",
    "StateAccessError",
    "StateBackend",
    "StateDescriptor",
    "StateTypeError",
    "TimerService",
    "ValueState",
    "ValueStateDescriptor",
    "configure",
    "jar_path",
    "keyed",
    "rescale",
    "versions",
]
