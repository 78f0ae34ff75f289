"""The kinds of state."""

from __future__ import annotations

import enum

#: The name that an operator's timers have among its states.
TIMERS = "$timers"


class StateKind(str, enum.Enum):
    """A kind of state, by the name that checkpoints and messages have for it.

    Reducing, aggregating and folding state store an accumulator as a value.
    """

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    SORTED_MAP = "sorted_map"
    #: A map without a key around it: one that all subtasks have.
    BROADCAST = "broadcast"
    OPERATOR_LIST = "operator_list"
    RAW_KEYED = "raw_keyed"
    TIMERS = "timers"
    #: Keystate's own, beside broadcast state.
    BROADCAST_TAG = "broadcast_tag"

    def __str__(self) -> str:
        return self.value


#: Those that a key has.
KEYED = (StateKind.VALUE, StateKind.LIST, StateKind.MAP, StateKind.SORTED_MAP)

#: Those of which a key has many entries.
COLLECTIONS = (StateKind.LIST, StateKind.MAP, StateKind.SORTED_MAP)
