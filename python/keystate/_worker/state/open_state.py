"""Opens the states that a function asks for, by what their descriptors are."""

from __future__ import annotations

from typing import Any

from keystate._spec import StateSpec
from keystate._worker.state.lists import WorkerListState
from keystate._worker.state.maps import WorkerMapState
from keystate._worker.state.sorted_maps import WorkerSortedMapState
from keystate._worker.state.ttl import noting
from keystate._worker.state.values import (
    WorkerAggregatingState,
    WorkerFoldingState,
    WorkerReducingState,
    WorkerValueState,
)
from keystate._worker.state.window_maps import WindowMapDescriptor, WorkerWindowMapState
from keystate._worker.state.worker_state import WorkerState
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
    state: WorkerState = state_class(spec, descriptor)(spec, index, cursor, descriptor)
    return state


def state_class(spec: StateSpec, descriptor: StateDescriptor) -> Any:
    """The class of a descriptor's state."""
    # A user's descriptor may be of a class that is derived from one of these.
    cls = next(_CLASSES[base] for base in type(descriptor).__mro__ if base in _CLASSES)
    return noting(cls, spec)
