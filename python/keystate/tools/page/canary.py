"""The report of a canary, as text and as a page."""

from __future__ import annotations

import html

from keystate.live.canary.report import CanaryReport
from keystate.tools.page.document import simple_page
from keystate.tools.page.tables import Table, as_html, size, text


def canary_text(report: CanaryReport) -> str:
    """It for a terminal."""
    parts = ["\n".join(_lines(report)), text(_tables(report))]
    if report.error is not None:
        parts.append(report.error)
    return "\n\n".join(part for part in parts if part)


def canary_page(report: CanaryReport) -> str:
    """A page with everything in it."""
    body = "".join(f"<p>{html.escape(line)}</p>" for line in _lines(report))
    body += "".join(map(as_html, _tables(report)))
    if report.error is not None:
        body += f"<h2>Error</h2><pre>{html.escape(report.error)}</pre>"
    return simple_page(f"Canary of {report.checkpoint}", f"<h1>Canary</h1>{body}")


def _lines(report: CanaryReport) -> list[str]:
    batches = f"micro-batches {report.first_batch} to {report.last_batch}"
    if report.error is not None:
        where = "" if report.failed_batch is None else f" in micro-batch {report.failed_batch}"
        verdict = f"The new code failed{where}"
    else:
        verdict = "The new code agrees" if report.agrees else "The new code differs"
    lines = [f"{verdict}: {batches} of {report.checkpoint}, with the same input and clock"]
    if report.states_error is not None:
        lines.append(f"The states were not compared: {report.states_error}")
    return lines


def _tables(report: CanaryReport) -> list[Table]:
    kinds = ["same", "changed", "added", "removed"]
    made: list[Table] = []
    if report.states:
        cells = [
            [str(one["operator"]), one["state"], *(_number(one[kind]) for kind in kinds)]
            for one in report.states
        ]
        made.append(("Keys of states", ["operator", "state", *kinds], cells))
    if report.rows is not None:
        cells = [[_number(report.rows[kind]) for kind in ("old", "new", *kinds)]]
        heads = ["rows old", "rows new", *(f"keys {kind}" for kind in kinds)]
        made.append(("Rows out", heads, cells))
        if report.rows["examples"]:
            shown = [
                [one["key"], " ".join(one["old"]), " ".join(one["new"])]
                for one in report.rows["examples"]
            ]
            made.append(("Rows that differ", ["key", "old", "new"], shown))
    paces = [(name, pace) for name, pace in (("old", report.old), ("new", report.new)) if pace]
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
