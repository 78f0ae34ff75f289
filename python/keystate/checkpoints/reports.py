"""What ``inspect``, ``verify`` and ``report`` give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from keystate._types.shown import Shown, renderer


class Inspection(Shown, dict[str, Any]):
    """What is in a checkpoint: a dictionary. A notebook shows it as tables and bars."""


class Findings(Shown, list[str]):
    """What is wrong with a checkpoint: a list of messages. A notebook shows it as a list."""


@dataclass(frozen=True)
class CheckpointReport:
    """What is in a checkpoint, and what is wrong with it.

    Attributes:
        content: what :func:`keystate.admin.inspect` gives.
        problems: what :func:`keystate.admin.verify` gives.
        statistics: of the last batch: sizes of states, their growth, when timers are due; ``None``
            if none was committed.
        limit: how many entries an operator may have; ``None`` if that is not set.
    """

    content: dict[str, Any] = field(repr=False)
    problems: list[str]
    statistics: dict[str, Any] | None = field(repr=False)
    limit: int | None

    def html(self) -> str:
        """A page with everything in it."""
        page: str = renderer().as_html(self)
        return page
