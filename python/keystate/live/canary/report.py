"""The report of a canary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keystate.checkpoints.shown import Shown
from keystate.live.canary.pace import Pace


@dataclass(frozen=True)
class CanaryReport(Shown):
    """Compares new code with the old code on the same micro-batches.

    Printed, it is tables; a notebook shows it as a page.

    Attributes:
        checkpoint: the old query's checkpoint location.
        first_batch: the first micro-batch that both ran with the same input and clock.
        last_batch: the last such micro-batch.
        states: the differences of both queries' states after `last_batch`, in the form of
            :func:`keystate.admin.diff`; empty if the states could not be compared.
        states_error: why the states could not be compared; None if they were.
        rows: the differences of both queries' output in these micro-batches, if it could be read:
            the numbers of rows ``old`` and ``new``; the numbers of keys whose rows are the
            ``same``, ``changed``, ``added`` and ``removed``; and ``examples`` that differ.
        error: the error of the new code; None if it did not fail.
        failed_batch: the micro-batch in which the new code failed, if it is known.
        old: the pace of the old query while the new one ran by itself; None if its progress is not
            known here.
        new: the pace of the new query then; None if it did not run by itself.
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
        """Whether the new code did not fail, and all compared states and rows are the same."""
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
