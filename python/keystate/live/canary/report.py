"""What a canary found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keystate._types.shown import Shown
from keystate.live.canary.pace import Pace


@dataclass(frozen=True)
class CanaryReport(Shown):
    """How new code did on the same micro-batches as the old code.

    Printed it is tables; a notebook shows it as a page.

    Attributes:
        checkpoint: the old query's.
        first_batch: the first micro-batch that both ran with the same input and clock.
        last_batch: the last one of them.
        states: how the states of both differ after it, as :func:`keystate.admin.diff` tells it;
            empty if they could not be compared.
        states_error: why not; None if they were.
        rows: how what both emitted in these micro-batches differs, if there was a way to read it:
            the numbers of rows ``old`` and ``new``; the numbers of keys whose rows are the
            ``same``, ``changed``, ``added`` and ``removed``; and ``examples`` that differ.
        error: what the new code failed with; None if it did not.
        failed_batch: the micro-batch that it failed in, as far as it is known.
        old: how quick the old query was while the new one ran by itself; None if its progress is
            not known here.
        new: how quick the new one was then; None if it did not run so.
    """

    checkpoint: str
    first_batch: int
    last_batch: int
    states: Sequence[dict[str, Any]]
    states_error: str | None
    rows: dict[str, Any] | None
    error: str | None
    failed_batch: int | None
    old: Pace | None
    new: Pace | None

    @property
    def agrees(self) -> bool:
        """Whether the new code did not fail, and all that was compared is the same."""
        if self.error is not None or self.states_error is not None:
            return False
        counts = [*self.states, *([] if self.rows is None else [self.rows])]
        return all(one[kind] == 0 for one in counts for kind in ("added", "removed", "changed"))

    def json(self) -> str:
        """All of it as JSON."""
        return json.dumps({"agrees": self.agrees, **asdict(self)}, indent=2)

    def html(self) -> str:
        """A page with everything in it."""
        return self._repr_html_()
