"""The base of all functions: ``open`` and ``close``, results, side outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

from keystate.functions.runtime import RuntimeContext
from keystate.functions.type_variables import OUT
from keystate.state import (
    TypeLike,
)
from keystate.state.aggregates import AggregateFunction as AggregateFunction

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class OutputTag:
    """Names a side output: ``yield tag, value`` emits to it, beside the main output.

    Args:
        tag_id: the side output's name; tags with the same name mean the same side output.
        type: the type of its rows: DDL, DataType or dataclass.
    """

    def __init__(self, tag_id: str, type: TypeLike) -> None:
        if not tag_id:
            raise ValueError("a side output needs a name: OutputTag('late', 'key long, n long')")
        self.tag_id = tag_id
        self.type = type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type!r})"


#: What a function may return or yield.
Results: TypeAlias = Iterable[OUT | tuple[OutputTag, Any]] | OUT | tuple[OutputTag, Any] | None


class Function:
    """Base of all functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepares the function; get its states here.

        Called once for a subtask in a worker. Also called once on the driver, on a copy of the
        function, where Keystate learns which states the function has.
        """

    def close(self) -> None:
        """Releases what ``open`` took.

        Called after a batch query's task, or when a worker drops the function; not called in a
        worker that is killed.
        """
