"""What ``inspect`` and ``verify`` give, with how notebooks show it."""

from __future__ import annotations

import html
from typing import Any

from keystate._page.tables import as_html, tables


class Inspection(dict[str, Any]):
    """What is in a checkpoint: a dictionary. A notebook shows it as tables and bars."""

    def _repr_html_(self) -> str:
        parts = [*map(as_html, tables(self))]
        parts += [_bars(operator) for operator in self["operators"]]
        return "".join(parts)


class Findings(list[str]):
    """What is wrong with a checkpoint: a list of messages. A notebook shows it as a list."""

    def _repr_html_(self) -> str:
        if not self:
            return "<p>✔ Every file is as written.</p>"
        return f"<ul>{''.join(f'<li>{html.escape(one)}</li>' for one in self)}</ul>"


def _bars(operator: dict[str, Any]) -> str:
    """Bars of the entries that each partition holds: whether they are spread evenly."""
    partitions = operator["partitions"]
    most = max([part["entries"] or 0 for part in partitions], default=0)
    if not most:
        return ""
    lines = []
    for i, part in enumerate(partitions):
        entries = part["entries"] or 0
        width = 360 * entries / most
        lines.append(
            f'<text x="0" y="{18 * i + 13}">{part["partition"]}</text>'
            f'<rect x="40" y="{18 * i + 2}" width="{width:.1f}" height="14" fill="#00897b"/>'
            f'<text x="{46 + width:.1f}" y="{18 * i + 13}">{entries:,}</text>'
        )
    title = f"Entries by partition of operator {operator['id']} ({operator['name']})"
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 500 {18 * len(partitions)}" width="500" role="img" '
        f'font-size="12" fill="currentColor">{"".join(lines)}</svg></figure>'
    )
