"""Opens the states that a function asks for, by what their descriptors are."""

from __future__ import annotations

from typing import Any

from keystate._spec import StateSpec
from keystate._worker.list_state import WorkerListState
from keystate._worker.map_state import WorkerMapState
from keystate._worker.sorted_map import WorkerSortedMapState
from keystate._worker.states import (
    WorkerAggregatingState,
    WorkerFoldingState,
    WorkerReducingState,
    WorkerState,
    WorkerValueState,
)
from keystate._worker.ttl import noting
from keystate._worker.window_map import WindowMapDescriptor, WorkerWindowMapState
from keystate.state import (
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

_CLASSES: dict[type[StateDescriptor], Any] = {
    ValueStateDescriptor: WorkerValueState,
    ReducingStateDescriptor: WorkerReducingState,
    AggregatingStateDescriptor: WorkerAggregatingState,
    FoldingStateDescriptor: WorkerFoldingState,
    ListStateDescriptor: WorkerListState,
    MapStateDescriptor: WorkerMapState,
    SortedMapStateDescriptor: WorkerSortedMapState,
    WindowMapDescriptor: WorkerWindowMapState,
}


def open_state(
    spec: StateSpec, index: int, cursor: Any, descriptor: StateDescriptor
) -> WorkerState:
    """The state of a descriptor."""
    # A user's descriptor may be of a class that is derived from one of these.
    cls = next(_CLASSES[base] for base in type(descriptor).__mro__ if base in _CLASSES)
    state: WorkerState = noting(cls, spec)(spec, index, cursor, descriptor)
    return state
