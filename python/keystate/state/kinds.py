"""The kinds of state."""

from __future__ import annotations

import enum

#: The name that an operator's timers have among its states.
TIMERS = "$timers"
#: The name of the timers of a function of windows.
WINDOW_TIMERS = "$window_timers"


class StateKind(str, enum.Enum):
    """A kind of state; the value is its name in checkpoints and messages.

    Reducing, aggregating and folding state store an accumulator as a value.
    """

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    SORTED_MAP = "sorted_map"
    #: A map without keys: all subtasks have the same one.
    BROADCAST = "broadcast"
    OPERATOR_LIST = "operator_list"
    RAW_KEYED = "raw_keyed"
    TIMERS = "timers"
    WINDOW_TIMERS = "window_timers"
    #: Internal state that Keystate keeps beside broadcast state.
    BROADCAST_TAG = "broadcast_tag"

    def __str__(self) -> str:
        return self.value


#: The kinds of keyed state.
KEYED = (StateKind.VALUE, StateKind.LIST, StateKind.MAP, StateKind.SORTED_MAP)

#: The kinds of which one key has many entries.
COLLECTIONS = (StateKind.LIST, StateKind.MAP, StateKind.SORTED_MAP)
