"""The views of a checkpoint in notebooks."""

from __future__ import annotations

import html
from typing import Any

from keystate.checkpoints.reports import Findings, Inspection
from keystate.tools.page.tables import as_html, tables


def inspection_html(inspection: Inspection) -> str:
    """Tables, and bars of the entries of each partition."""
    parts = [*map(as_html, tables(inspection))]
    parts += [_bars(operator) for operator in inspection["operators"]]
    return "".join(parts)


def findings_html(findings: Findings) -> str:
    """A list of messages."""
    if not findings:
        return "<p>✔ Every file is as written.</p>"
    return f"<ul>{''.join(f'<li>{html.escape(one)}</li>' for one in findings)}</ul>"


def _bars(operator: dict[str, Any]) -> str:
    """Bars of the entries that each partition holds: whether they are spread evenly."""
    partitions = operator["partitions"]
    most = max([part["entries"] for part in partitions], default=0)
    if not most:
        return ""
    lines = []
    for i, part in enumerate(partitions):
        entries = part["entries"]
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
