"""Numbers of things, as a person says them."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """``1 step``, ``2 steps``, ``1,000 entries``."""
    if count == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {plural}"
