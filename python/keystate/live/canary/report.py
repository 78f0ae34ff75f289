"""The report of a canary."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
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
            ``same``, ``changed``, ``added`` and ``removed``; of the changed ones the numbers of
            those in which each of the ``columns`` differs; and ``examples`` that differ.
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

    def differences(
        self, *, except_states: Collection[str] = (), except_columns: Collection[str] = ()
    ) -> list[dict[str, Any]]:
        """What differs, without what the new code is expected to change.

        Args:
            except_states: names of states that may differ.
            except_columns: columns of the compared rows that may differ; a key with rows of one
                query only is a difference all the same.

        Returns:
            For each difference a dictionary: of a state ``operator``, ``state`` and the numbers of
            keys ``added``, ``removed`` and ``changed``; of rows the same numbers, or a ``column``
            and in how many keys it is ``changed``, where ``""`` is a difference of whole rows; and
            an ``error`` of the new code or of the comparison. Empty if there is none.
        """
        errors = [self.error, self.states_error]
        found: list[dict[str, Any]] = [{"error": one} for one in errors if one is not None]
        kinds = ("added", "removed", "changed")
        found += [
            {name: state[name] for name in ("operator", "state", *kinds)}
            for state in self.states
            if state["state"] not in except_states and any(state[kind] for kind in kinds)
        ]
        if self.rows is not None:
            if self.rows["added"] or self.rows["removed"]:
                found.append({kind: self.rows[kind] for kind in kinds})
            found += [
                {"column": name, "changed": keys}
                for name, keys in self.rows["columns"].items()
                if name not in except_columns
            ]
        return found

    def json(self) -> str:
        """All of it as JSON."""
        return json.dumps({"agrees": self.agrees, **asdict(self)}, indent=2)

    def html(self) -> str:
        """A page with everything in it."""
        return self._repr_html_()
