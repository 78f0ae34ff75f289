"""How fast the states of an operator grow, for a page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from keystate.tools.page.tables import Table

_HOUR = 3_600_000

#: Fewer batches than this show nothing.
_LEAST = 3


def growth(history: Sequence[dict[str, Any]], limit: int | None) -> Table | None:
    """A table with a line for each state, and one for all.

    Args:
        history: the kept versions in the statistics, the oldest first. Only the newer half is used.
        limit: how many entries the operator may have; ``None`` if that is not known.

    Returns:
        ``None`` if too few versions are kept, or those looked at began at the same time.
    """
    timed = [version for version in history if version["time"] is not None]
    if len(timed) < _LEAST:
        return None
    # A query fills its state once: the first versions would show a growth that has ended.
    timed = timed[(len(timed) - 1) // 2 :]
    if timed[-1]["time"] <= timed[0]["time"]:
        return None
    hours = (timed[-1]["time"] - timed[0]["time"]) / _HOUR
    names = list(dict.fromkeys(name for version in timed for name in version["entries"]))
    by_state = {name: [version["entries"].get(name, 0) for version in timed] for name in names}
    rows = [_row(name, counts, hours, None) for name, counts in by_state.items()]
    if rows:
        rows.append(_row("all", [sum(of) for of in zip(*by_state.values())], hours, limit))
    title = f"Growth in the batches {timed[0]['batch']} to {timed[-1]['batch']}"
    return title, ["state", "entries", "an hour", "at this rate", "what it shows"], rows


def _row(name: str, counts: Sequence[int], hours: float, limit: int | None) -> list[str]:
    rate = (counts[-1] - counts[0]) / hours
    only_grows = rate > 0 and all(a <= b for a, b in pairwise(counts))
    return [
        name,
        f"{counts[-1]:,}",
        f"{rate:+,.0f}",
        _when(counts[-1], rate, limit),
        "it only grows: nothing was removed" if only_grows else "",
    ]


def _when(now: int, rate: float, limit: int | None) -> str:
    if rate <= 0:
        return ""
    if limit is None:
        return f"twice as many in {_hours(now / rate)}"
    if now >= limit:
        return f"the limit of {limit:,} is reached"
    return f"the limit of {limit:,} is reached in {_hours((limit - now) / rate)}"


def _hours(hours: float) -> str:
    return f"{hours * 60:,.0f} min" if hours < 2 else f"{hours:,.0f} h"
