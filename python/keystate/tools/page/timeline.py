"""The history of a key as a table, for terminals, and with a picture for notebooks and pages."""

from __future__ import annotations

import html
from collections.abc import Sequence

from keystate.checkpoints.differences import changed_parts, moment
from keystate.checkpoints.history import History, KeyVersion
from keystate.tools.page.lanes import picture
from keystate.tools.page.tables import as_html, text

HEADS = ["batch", "time", "watermark", "what changed"]


def timeline_text(history: History) -> str:
    """The batches that changed something of a key, and what."""
    return text([(_title(history), HEADS, lines(history))])


def timeline(history: History) -> str:
    """The same for a notebook or a page, below a picture of it."""
    table = as_html(("", HEADS, lines(history)))
    return f"<h3>{html.escape(_title(history))}</h3>{picture(history)}{table}"


def lines(versions: Sequence[KeyVersion]) -> list[list[str]]:
    """A line for each state that a batch changed."""
    made = []
    for version in versions:
        first = [str(version.batch), moment(version.time), moment(version.watermark or None)]
        for change in version.changes:
            for part in changed_parts(change.state, change.before, change.after):
                made.append([*first, part])
                first = ["", "", ""]
    return made


def _title(history: History) -> str:
    title = f"Key {history.key!r} in operator {history.operator}"
    if not history:
        return f"{title}: no version is kept"
    return f"{title}: versions {history[0].version} to {history[-1].version}"
