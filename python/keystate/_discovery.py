"""Finds out which states a function has, before the query starts.

The JVM has to know them to plan: what to send ahead, what to check against the checkpoint. So a
copy of the function is opened on the driver with a context that only takes notes.
"""

from __future__ import annotations

import pickle
from typing import Any

from keystate._spec import StateSpec, resolve_state
from keystate.errors import DeclarationError, StateAccessError
from keystate.runtime import RuntimeContext
from keystate.state import StateDescriptor


def discover_states(function: bytes) -> tuple[StateSpec, ...]:
    """The states that a pickled function plan gets in ``open``, in that order.

    Raises:
        DeclarationError: ``open`` failed, or a state is not well declared.
    """
    context = _DiscoveryContext()
    plan = pickle.loads(function)
    try:
        plan.open(context)
    except DeclarationError:
        raise
    except Exception as e:
        raise DeclarationError(
            f"open() failed on the driver, where it is called once on a copy of the function to "
            f"learn its states: {type(e).__name__}: {e}"
        ) from e
    plan.close()
    return tuple(context.states.values())


class _DiscoveryContext(RuntimeContext):
    def __init__(self) -> None:
        self.states: dict[str, StateSpec] = {}

    def _provide(self, descriptor: StateDescriptor) -> Any:
        if descriptor.name in self.states:
            raise DeclarationError(
                f"two states are named '{descriptor.name}': every state of a function needs a name "
                "of its own"
            )
        self.states[descriptor.name] = resolve_state(descriptor)
        return _DeclaredState(descriptor.name)

    def get_task_name(self) -> str:
        return "declaration"

    def get_number_of_parallel_subtasks(self) -> int:
        return 1

    def get_max_number_of_parallel_subtasks(self) -> int:
        return 1

    def get_index_of_this_subtask(self) -> int:
        return 0

    def get_attempt_number(self) -> int:
        return 0


class _DeclaredState:
    """A state that has no key yet, and so can't be used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):
            raise AttributeError(method)
        raise StateAccessError(
            f"state '{self._name}' was used in open(), where no key is being processed"
        )
