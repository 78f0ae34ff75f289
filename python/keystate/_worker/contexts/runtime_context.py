"""The runtime context, which a function gets in ``open``."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import types as T

from keystate._spec.protocol import Control
from keystate._spec.specs import OperatorSpec
from keystate._types.codec import Codec, Misfit, codec
from keystate._types.hash import KeyGroups
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.state.ttl_states import with_ttl
from keystate._worker.state.worker_state import StateFactory, WorkerState
from keystate.errors import DeclarationError
from keystate.functions import MetricGroup, RuntimeContext
from keystate.functions.subtask import Subtask
from keystate.state import StateDescriptor


class WorkerRuntimeContext(RuntimeContext):
    """The runtime context of a function in a worker."""

    def __init__(
        self,
        spec: OperatorSpec,
        control: dict[str, Any],
        cursor: RowContext,
        open_state: StateFactory,
        key_type: T.StructType,
    ) -> None:
        self.metrics = MetricGroup() if spec.metrics else None
        self._key_type = key_type
        self._open_state = open_state
        self._spec = spec
        self._subtask = Subtask(
            spec.name or "keyed process",
            control[Control.PARALLELISM],
            control[Control.MAX_PARALLELISM],
            control[Control.SUBTASK],
            control[Control.ATTEMPT],
        )
        self._cursor = cursor
        self._declared = {state.name: i for i, state in enumerate(spec.states)}
        self.states: dict[str, WorkerState] = {}

    def _provide(self, descriptor: StateDescriptor) -> Any:
        index = self._declared.get(descriptor.name)
        if index is None:
            raise DeclarationError(
                f"state '{descriptor.name}' was not declared when the query was planned: get every "
                "state in open(), unconditionally"
            )
        if descriptor.name in self.states:
            raise DeclarationError(f"two states are named '{descriptor.name}'")
        state = self._open_state(self._spec.states[index], index, self._cursor, descriptor)
        self.states[descriptor.name] = state
        return with_ttl(state)

    def get_key_group(self, key: Any) -> int:
        if not self._key_type.fields:
            return super().get_key_group(key)
        row = key if len(self._key_type.fields) > 1 else (key,)
        try:
            encoded = self._key_codec.encode([row])
        except Misfit as e:
            raise TypeError(f"a key does not fit {self._key_codec.name}: {e}") from None
        return self._key_groups.of(encoded)[0]

    def get_metrics_group(self) -> MetricGroup:
        if self.metrics is None:
            raise DeclarationError(
                "there were no metrics when the query was planned: get them in "
                "open(), unconditionally"
            )
        return self.metrics

    @cached_property
    def _key_codec(self) -> Codec:
        return codec(self._key_type)

    @cached_property
    def _key_groups(self) -> KeyGroups:
        return KeyGroups(self._key_type, self.get_max_number_of_parallel_subtasks())
