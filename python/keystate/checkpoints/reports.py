"""The results of ``inspect``, ``verify`` and ``report``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from keystate.checkpoints.shown import Shown, renderer


class Inspection(Shown, dict[str, Any]):
    """The content of a checkpoint: a dictionary. A notebook shows it as tables and bars."""


class Findings(Shown, list[str]):
    """The problems of a checkpoint: a list of messages. A notebook shows it as a list."""


@dataclass(frozen=True)
class CheckpointReport:
    """The content of a checkpoint, and its problems.

    Attributes:
        content: the result of :func:`keystate.admin.inspect`.
        problems: the result of :func:`keystate.admin.verify`.
        statistics: sizes of states, their growth, and when timers are due, after the last batch;
            ``None`` if none was committed.
        limit: how many entries an operator may have; ``None`` without a limit.
    """

    content: dict[str, Any] = field(repr=False)
    problems: list[str]
    statistics: dict[str, Any] | None = field(repr=False)
    limit: int | None

    def html(self) -> str:
        """A page with everything in it."""
        page: str = renderer().as_html(self)
        return page
