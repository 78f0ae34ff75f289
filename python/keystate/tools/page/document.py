"""One HTML page with everything in it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keystate.tools.page.charts import Chart, charts
from keystate.tools.page.growth import growth
from keystate.tools.page.tables import as_html, size, tables
from keystate.tools.page.untouched import untouched

#: Where a page finds its scripts if they are not in it.
CHARTS_JS = "plotly.min.js"
PAGE_JS = "page.js"
_LINKED = f'<script src="{CHARTS_JS}"></script><script src="{PAGE_JS}"></script>'

_HERE = Path(__file__).parent


def charts_js() -> Path | None:
    """The file with plotly.js; ``None`` if plotly is not installed."""
    spec = find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0], "package_data", CHARTS_JS)
    return path if path.exists() else None


def document(
    found: dict[str, Any],
    statistics: dict[str, Any] | None,
    problems: Sequence[str] | None,
    *,
    live: bool = False,
    limit: int | None = None,
) -> str:
    """A page about a checkpoint.

    Args:
        found: by ``inspect``.
        statistics: of the last batch; ``None`` if none was committed.
        problems: by ``verify``; ``None`` if it did not run.
        live: whether a server gives the page, with its scripts next to it. Else all is in it.
        limit: how many entries an operator may have; ``None`` if that is not known.
    """
    script = charts_js()
    made: list[Chart] = []
    parts = [_tiles(found, statistics)]
    by_id = {of["id"]: of for of in (statistics or {"operators": []})["operators"]}
    for operator in found["operators"]:
        title = f"Operator {operator['id']}: {operator['name']}"
        parts.append(f"<h2>{html.escape(title)}</h2><div class=charts>")
        if operator["id"] in by_id:
            for chart in charts(operator, by_id[operator["id"]]):
                parts.append(_chart(chart, len(made), drawn=script is not None))
                made.append(chart)
        parts.append("</div>")
        if operator["id"] in by_id:
            grown = growth(by_id[operator["id"]]["history"], limit)
            left = untouched(by_id[operator["id"]])
            parts += [as_html(table) for table in (grown, left) if table is not None]
    parts.append(f"<h2>Files</h2>{_verdict(problems)}")
    parts += map(as_html, tables(found))
    if script is None:
        parts.insert(0, "<p class=note>Charts need <code>pip install 'keystate[page]'</code>.</p>")
        scripts = ""
    else:
        charts_code = "" if live else script.read_text(encoding="utf-8")
        drawn = [{"data": chart.data, "layout": chart.layout} for chart in made]
        scripts = f'<script type="application/json" id="figures">{_json(drawn)}</script>' + (
            _LINKED if live else f"<script>{charts_code}</script><script>{_asset(PAGE_JS)}</script>"
        )
    if live:
        parts.insert(1, _ask(found["operators"]))
    return _PAGE.format(
        title=html.escape(found["checkpoint"]),
        css=_asset("page.css"),
        batch=found["batch"],
        live="true" if live else "false",
        body="\n".join(parts),
        scripts=scripts,
    )


def simple_page(title: str, body: str) -> str:
    """A page without charts, which does not change."""
    return _PAGE.format(
        title=html.escape(title),
        css=_asset("page.css"),
        batch="",
        live="false",
        body=body,
        scripts="",
    )


def _ask(operators: Sequence[dict[str, Any]]) -> str:
    """Asks for a key, to show its history."""
    own = [one for one in operators if one["keystate"]]
    options = "".join(
        f"<option value={one['id']}>{one['id']}: {html.escape(one['name'])}</option>" for one in own
    )
    chosen = f"<select name=operator>{options}</select> " if len(own) > 1 else ""
    return (
        f"<form action=/history>{chosen}<input name=key placeholder=key required> "
        "<button>History of a key</button></form>"
    )


def page_js() -> Path:
    """The file with the page's own script."""
    return _HERE / PAGE_JS


def _json(value: Any) -> str:
    """JSON that can't end the element that it is in."""
    return json.dumps(value).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _tiles(found: dict[str, Any], statistics: dict[str, Any] | None) -> str:
    entries = [part["entries"] for op in found["operators"] for part in op["partitions"]]
    tiles = [
        ("last batch", _dash(found["batch"])),
        ("pending batch", _dash(found["pending"])),
        ("partitions", _dash(found["partitions"])),
        ("entries", f"{sum(entries):,}"),
        ("in files", size(sum(op["bytes"] for op in found["operators"]))),
        ("versions kept", str(max((op["versions"] for op in found["operators"]), default=0))),
    ]
    cells = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in tiles)
    return f"<div class=tiles>{cells}</div>"


def _dash(value: Any) -> str:
    return "-" if value is None else f"{value:,}"


def _chart(chart: Chart, number: int, drawn: bool) -> str:
    picture = f'<div class=chart id="chart{number}"></div>' if drawn else ""
    return (
        f"<figure><figcaption><b>{html.escape(chart.title)}</b> {html.escape(chart.note)}"
        f"</figcaption>{picture}<details{'' if drawn else ' open'}><summary>Numbers</summary>"
        f"{as_html(('', chart.heads, chart.rows))}</details></figure>"
    )


def _verdict(problems: Sequence[str] | None) -> str:
    if problems is None:
        return "<p>Not checked here: <code>keystate verify</code> reads every file.</p>"
    if not problems:
        return "<p class=good>Every file is as written.</p>"
    return f"<ul class=bad>{''.join(f'<li>{html.escape(one)}</li>' for one in problems)}</ul>"


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Keystate: {title}</title><style>{css}</style></head>
<body data-batch="{batch}" data-live="{live}">
<h1>{title}</h1>
{body}
{scripts}
</body></html>
"""
