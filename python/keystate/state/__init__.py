"""Typed state and its descriptors.

A state belongs to the key of the row being processed. Get it in ``open``, from the runtime context,
with a descriptor that names it and gives its type: a Spark DDL string (``"long"``,
``"count long, total long"``, ``"array<string>"``), a ``DataType``, a dataclass, or a Python type
such as ``int``, which is a long, or ``list[str]``. A value is converted when it is written: ``3``
in a double is read as ``3.0``; a value that does not fit is refused. After you change a value from
a state in place, call ``update`` (or ``put``) to keep the change. A write stores the value as it is
at that moment; a read returns a copy if the value can change in place.
"""

from keystate.state.descriptors import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateDescriptor,
    TypeLike,
    ValueStateDescriptor,
)
from keystate.state.states import (
    BYTEWISE,
    DESCENDING,
    NATURAL,
    AggregatingState,
    AppendingState,
    BroadcastState,
    FoldingState,
    KeyOrder,
    ListState,
    MapState,
    MergingState,
    ReadOnlyBroadcastState,
    ReducingState,
    SortedMapState,
    State,
    ValueState,
)
from keystate.state.ttl import StateTtlConfig, Time

__all__ = [
    "BYTEWISE",
    "DESCENDING",
    "NATURAL",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "FoldingState",
    "FoldingStateDescriptor",
    "KeyOrder",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "SortedMapState",
    "SortedMapStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "Time",
    "TypeLike",
    "ValueState",
    "ValueStateDescriptor",
]
