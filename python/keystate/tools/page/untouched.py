"""Which keys were not written for the longest, for a page."""

from __future__ import annotations

import datetime
from typing import Any

from keystate.tools.page.tables import Table

_SHOWN = 5


def untouched(statistics: dict[str, Any]) -> Table | None:
    """A table with a line for each state that has keys which no micro-batch has written lately.

    Args:
        statistics: of an operator.

    Returns:
        ``None`` if there is no such state, or only one version is kept.
    """
    rows = [
        [
            state["name"],
            f"{found['keys']:,}",
            _looked_at(state["sample"]),
            ", ".join(map(_told, found["first"][:_SHOWN])),
        ]
        for state in statistics["states"]
        if (found := state["sample"]["untouched"]) and found["keys"]
    ]
    if not rows:
        return None
    since = f"Keys that were not written after batch {statistics['oldest']}, the oldest kept"
    return since, ["state", "keys", "looked at", "for the longest, or the largest"], rows


def _looked_at(sample: dict[str, Any]) -> str:
    seen, total = sample["entries"], sample["of"]
    return "all entries" if total == seen else f"{seen:,} of {total:,} entries"


def _told(key: dict[str, Any]) -> str:
    if key["time"] is None:
        return str(key["key"])
    at = datetime.datetime.fromtimestamp(key["time"] / 1000, datetime.timezone.utc)
    return f"{key['key']} ({at:%Y-%m-%d %H:%M})"
