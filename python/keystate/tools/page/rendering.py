"""How each class of reports looks: as text, and as HTML for notebooks and pages."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from keystate.checkpoints.history import History
from keystate.checkpoints.reports import CheckpointReport, Findings, Inspection
from keystate.live.canary.report import CanaryReport
from keystate.live.replay.all_keys import Replays
from keystate.live.replay.steps import Replay
from keystate.tools.page.canary import canary_page, canary_text
from keystate.tools.page.document import document
from keystate.tools.page.notebook import findings_html, inspection_html
from keystate.tools.page.replays import replay_html, replay_text
from keystate.tools.page.timeline import timeline, timeline_text


@singledispatch
def as_text(report: Any) -> str:
    """A report as ``print`` shows it."""
    return repr(report)


@singledispatch
def as_html(report: Any) -> str:
    """A report as a notebook shows it, or as a page."""
    raise TypeError(f"there is no HTML of {type(report).__name__}")


def _page(report: CheckpointReport) -> str:
    return document(report.content, report.statistics, report.problems, limit=report.limit)


as_text.register(CanaryReport, canary_text)
as_text.register(History, timeline_text)
as_text.register(Replay, replay_text)
as_text.register(Replays, replay_text)

as_html.register(CanaryReport, canary_page)
as_html.register(CheckpointReport, _page)
as_html.register(Findings, findings_html)
as_html.register(History, timeline)
as_html.register(Inspection, inspection_html)
as_html.register(Replay, replay_html)
as_html.register(Replays, replay_html)
