"""Opens the states that a function asks for, by what their descriptors are."""

from __future__ import annotations

from typing import Any

from keystate._spec.specs import StateSpec
from keystate._worker.state.lists import WorkerListState
from keystate._worker.state.maps import WorkerMapState
from keystate._worker.state.sorted_maps import WorkerSortedMapState
from keystate._worker.state.undo import (
    UndoableAggregatingState,
    UndoableFoldingState,
    UndoableListState,
    UndoableMapState,
    UndoableReducingState,
    UndoableSortedMapState,
    UndoableWindowMapState,
)
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
from keystate.state.ttl import needs_notes

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


#: The classes of states whose changes can be undone, where that takes another class.
_UNDOABLE: dict[Any, Any] = {
    WorkerListState: UndoableListState,
    WorkerMapState: UndoableMapState,
    WorkerSortedMapState: UndoableSortedMapState,
    WorkerWindowMapState: UndoableWindowMapState,
}

#: The same for accumulators that can change in place.
_UNDOABLE_ACCUMULATORS: dict[Any, Any] = {
    WorkerReducingState: UndoableReducingState,
    WorkerAggregatingState: UndoableAggregatingState,
    WorkerFoldingState: UndoableFoldingState,
}


def open_state(
    spec: StateSpec, index: int, cursor: Any, descriptor: StateDescriptor
) -> WorkerState:
    """The state of a descriptor."""
    return _noting(_class_of(descriptor)(spec, index, cursor, descriptor), undoable=False)


def open_undoable_state(
    spec: StateSpec, index: int, cursor: Any, descriptor: StateDescriptor
) -> WorkerState:
    """The state of a descriptor, with changes that can be undone."""
    cls = _class_of(descriptor)
    if spec.value_codec().mutable:
        cls = _UNDOABLE_ACCUMULATORS.get(cls, cls)
    cls = _UNDOABLE.get(cls, cls)
    return _noting(cls(spec, index, cursor, descriptor), undoable=True)


def _class_of(descriptor: StateDescriptor) -> Any:
    # A user's descriptor may be of a class that is derived from one of these.
    return next(_CLASSES[base] for base in type(descriptor).__mro__ if base in _CLASSES)


def _noting(state: WorkerState, undoable: bool) -> WorkerState:
    """The state, which notes its use if its time to live needs that."""
    ttl = state.spec.ttl
    if ttl is not None and needs_notes(ttl):
        state.note_uses(ttl, undoable)
    return state
