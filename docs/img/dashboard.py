"""Draws the Grafana dashboard, of the data that a real Prometheus has of running queries.

python -m docs.img.dashboard [SECONDS]      writes dashboard.svg, for docs/running/monitoring.md
"""

from __future__ import annotations

import html
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.query.prometheus import DASHBOARD, Ask, monitored, of_all

PICTURE = Path(__file__).parent / "dashboard.svg"

#: A step of Grafana's grid, in pixels, and what a panel's title and legend take.
_STEP_X, _STEP_Y = 46, 30
_ABOVE, _BELOW, _LEFT = 26, 50, 48
_COLORS = ("#3f8f4f", "#c98a00", "#2f6fb5", "#b5452f", "#7a4fb5", "#4f8f8f")
_POINTS = 120


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, monitored(Path(folder)) as ask:
        time.sleep(seconds)
        end = time.time()
        panels = [_panel(panel, ask, end - seconds, end) for panel in DASHBOARD["panels"]]
    width = 24 * _STEP_X
    height = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in DASHBOARD["panels"]) * _STEP_Y
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="10" role="img">\n'
        f"<title>The panels of the dashboard, with data of two queries</title>\n"
        f'<rect width="{width}" height="{height}" fill="#f4f5f5"/>\n'
        + "\n".join(panels)
        + "\n</svg>\n"
    )


def _panel(panel: dict[str, Any], ask: Ask, start: float, end: float) -> str:
    lines = [
        (_named(target.get("legendFormat", ""), series["metric"]), series["values"])
        for target in panel["targets"]
        for series in ask(
            "query_range",
            query=of_all(target["expr"]),
            start=start,
            end=end,
            step=max(1, (end - start) / _POINTS),
        )["result"]
    ]
    at = panel["gridPos"]
    width, height = at["w"] * _STEP_X - 8, at["h"] * _STEP_Y - 8
    inner = (width - _LEFT - 10, height - _ABOVE - _BELOW)
    values = [float(value) for _, points in lines for _, value in points if value != "NaN"]
    low, high = min([0.0, *values]), max([0.0, *values]) or 1.0

    def place(when: float, value: str) -> str:
        x = _LEFT + inner[0] * (when - start) / (end - start)
        y = _ABOVE + inner[1] * (1 - (float(value) - low) / (high - low))
        return f"{x:.0f},{y:.0f}"

    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    drawn = [
        f'<g transform="translate({at["x"] * _STEP_X + 4},{at["y"] * _STEP_Y + 4})">',
        f'<rect width="{width}" height="{height}" rx="3" fill="#fff" stroke="#d8d9da"/>',
        f'<text x="10" y="17" font-weight="bold">{html.escape(panel["title"])}</text>',
    ]
    for share in (0.0, 0.5, 1.0):
        y = _ABOVE + inner[1] * (1 - share)
        told = _told(low + (high - low) * share, unit)
        drawn.append(
            f'<path d="M{_LEFT} {y:.0f}h{inner[0]}" stroke="#e4e5e6"/>'
            f'<text x="{_LEFT - 4}" y="{y + 4:.0f}" text-anchor="end" fill="#546e7a">{told}</text>'
        )
    x, y = _LEFT, height - 26
    for i, (name, points) in enumerate(lines):
        color = _COLORS[i % len(_COLORS)]
        line = " ".join(place(when, value) for when, value in points if value != "NaN")
        drawn.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        if x + 5 * len(name) > width and y == height - 26:
            x, y = _LEFT, height - 12
        if x + 5 * len(name) <= width:
            drawn.append(f'<text x="{x}" y="{y}" fill="{color}">{html.escape(name)}</text>')
            x += 5 * len(name) + 12
    return "\n".join([*drawn, "</g>"])


def _named(legend: str, labels: dict[str, str]) -> str:
    """A legend as Grafana fills it in."""
    return re.sub(r"\{\{(\w+)\}\}", lambda of: labels.get(of[1], ""), legend)


def _told(value: float, unit: str) -> str:
    """A number with its unit, short."""
    if unit == "ms" and abs(value) >= 1000:
        value, unit = value / 1000, "s"
    size = 1024 if unit == "bytes" else 1000
    steps = ["B", "KiB", "MiB", "GiB"] if unit == "bytes" else ["", "k", "M", "G"]
    step = 0
    while abs(value) >= size and step < 3:
        value, step = value / size, step + 1
    after = {"ms": " ms", "s": " s", "rowsps": "/s"}.get(unit, "")
    return f"{value:.3g}{' ' if unit == 'bytes' else ''}{steps[step]}{after}"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 150.0)
