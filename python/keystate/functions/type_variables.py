"""Type variables of functions and streams; ``Any`` is their default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the standard library has defaults from Python 3.13 on
    from typing_extensions import TypeVar

    KEY = TypeVar("KEY", default=Any)
    KEY_co = TypeVar("KEY_co", covariant=True, default=Any)
    IN = TypeVar("IN", default=Any)
    IN1 = TypeVar("IN1", default=Any)
    IN2 = TypeVar("IN2", default=Any)
    OUT = TypeVar("OUT", default=Any)
    ROW = TypeVar("ROW", default=Any)
else:
    from typing import TypeVar

    KEY = TypeVar("KEY")
    KEY_co = TypeVar("KEY_co", covariant=True)
    IN = TypeVar("IN")
    IN1 = TypeVar("IN1")
    IN2 = TypeVar("IN2")
    OUT = TypeVar("OUT")
    ROW = TypeVar("ROW")
