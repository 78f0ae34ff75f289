"""What a canary found."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keystate._canary.pace import Pace
from keystate._page import simple_page, text
from keystate._page.tables import as_html, size


@dataclass(frozen=True)
class CanaryReport:
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
        body = "".join(f"<p>{html.escape(line)}</p>" for line in self._lines())
        body += "".join(map(as_html, self._tables()))
        if self.error is not None:
            body += f"<h2>Error</h2><pre>{html.escape(self.error)}</pre>"
        return simple_page(f"Canary of {self.checkpoint}", f"<h1>Canary</h1>{body}")

    _repr_html_ = html

    def __str__(self) -> str:
        parts = ["\n".join(self._lines()), text(self._tables())]
        if self.error is not None:
            parts.append(self.error)
        return "\n\n".join(part for part in parts if part)

    def _lines(self) -> list[str]:
        batches = f"micro-batches {self.first_batch} to {self.last_batch}"
        if self.error is not None:
            where = "" if self.failed_batch is None else f" in micro-batch {self.failed_batch}"
            verdict = f"The new code failed{where}"
        else:
            verdict = "The new code agrees" if self.agrees else "The new code differs"
        lines = [f"{verdict}: {batches} of {self.checkpoint}, with the same input and clock"]
        if self.states_error is not None:
            lines.append(f"The states were not compared: {self.states_error}")
        return lines

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        kinds = ["same", "changed", "added", "removed"]
        made = []
        if self.states:
            cells = [
                [str(one["operator"]), one["state"], *(_number(one[kind]) for kind in kinds)]
                for one in self.states
            ]
            made.append(("Keys of states", ["operator", "state", *kinds], cells))
        if self.rows is not None:
            cells = [[_number(self.rows[kind]) for kind in ("old", "new", *kinds)]]
            heads = ["rows old", "rows new", *(f"keys {kind}" for kind in kinds)]
            made.append(("Rows out", heads, cells))
            if self.rows["examples"]:
                shown = [
                    [one["key"], " ".join(one["old"]), " ".join(one["new"])]
                    for one in self.rows["examples"]
                ]
                made.append(("Rows that differ", ["key", "old", "new"], shown))
        paces = [(name, pace) for name, pace in (("old", self.old), ("new", self.new)) if pace]
        if paces:
            heads = ["", "batches", "rows", "rows/s", "median s", "max s", "entries", "memory"]
            cells = [
                [
                    name,
                    _number(pace.batches),
                    _number(pace.rows),
                    f"{pace.rows_per_second:,.0f}",
                    f"{pace.median_seconds:.3f}",
                    f"{pace.max_seconds:.3f}",
                    _number(pace.state_rows),
                    size(pace.state_bytes),
                ]
                for name, pace in paces
            ]
            made.append(("Side by side", heads, cells))
        return made


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
