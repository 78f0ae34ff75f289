"""Which clock an operator goes by."""

from __future__ import annotations

from enum import Enum

from keystate.errors import DeclarationError


class TimeMode(Enum):
    """A time mode, by what users write."""

    #: Event time if the input has a watermark, else no clock.
    AUTO = "auto"
    EVENT_TIME = "event_time"
    PROCESSING_TIME = "processing_time"
    NONE = "none"
    #: The one that the checkpoint has, of an operator that is edited.
    AS_BEFORE = ""


#: The modes that an operator of a query can have.
DECLARED = (TimeMode.AUTO, TimeMode.EVENT_TIME, TimeMode.PROCESSING_TIME, TimeMode.NONE)
#: The modes that an operator of a checkpoint can have.
STORED = (TimeMode.NONE, TimeMode.PROCESSING_TIME, TimeMode.EVENT_TIME)
#: The modes that an operator can be written with. `AUTO` is that of the query that starts with it.
WRITTEN = (TimeMode.AUTO, *STORED)


def time_mode_of(text: str, allowed: tuple[TimeMode, ...]) -> TimeMode:
    """The time mode that a user wrote.

    Raises:
        DeclarationError: it is not one of those that are allowed.
    """
    for mode in allowed:
        if mode.value == text:
            return mode
    known = tuple(mode.value for mode in allowed)
    raise DeclarationError(f"time_mode must be one of {known}, got {text!r}")
