"""Messages for values that do not fit their type."""

from __future__ import annotations

from typing import Any


class Misfit(TypeError):
    """A value does not fit its type."""

    def __init__(self, value: Any, expected: str, where: str = "") -> None:
        self.value = value
        self.expected = expected
        self.where = where
        super().__init__(value, expected, where)

    def within(self, place: str) -> Misfit:
        """This misfit, seen from the value around it."""
        where = f"{place}, {self.where}" if self.where else place
        return type(self)(self.value, self.expected, where)

    def __str__(self) -> str:
        got = f"{type(self.value).__name__} {shorten(self.value)}"
        return f"expected {self.expected}{' at ' + self.where if self.where else ''}, got {got}"


class TooLarge(Misfit):
    """Values fit their type, but there is more of them than one message can hold."""

    def __str__(self) -> str:
        size = sum(len(value) for value in self.value if value is not None)
        return (
            f"{len(self.value)} {self.expected} values with {size:,} bytes or characters, where at "
            "most 2 GB can be sent at a time"
        )


def shorten(value: Any) -> str:
    """The value's repr, or the start of it, for a message."""
    text = repr(value[:100] if isinstance(value, (str, bytes)) else value)
    return text if len(text) <= 100 else text[:97] + "..."
