"""The history of a key as a picture: a lane for each state, a mark where a batch changed it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from keystate.checkpoints.differences import changed_parts, moment
from keystate.checkpoints.history import KeyVersion

_WIDTH, _LEFT, _LANE, _TOP = 760, 150, 26, 22
_MOST_NAME = 20


def picture(versions: Sequence[KeyVersion]) -> str:
    """A drawing in SVG, which needs no script; empty where nothing changed.

    A mark is full while there is something afterwards, and hollow where nothing is left.

    Args:
        versions: the versions of a key, oldest first.
    """
    names = list(dict.fromkeys(one.state for version in versions for one in version.changes))
    if not names:
        return ""
    step = (_WIDTH - _LEFT - 20) / max(1, len(versions) - 1)
    drawn = [_label(versions[0], _LEFT, "start")]
    if len(versions) > 1:
        drawn.append(_label(versions[-1], _WIDTH - 20, "end"))
    for row, name in enumerate(names):
        y = _TOP + _LANE * row + _LANE // 2
        shown = name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 1]}…"
        drawn.append(
            f'<text x="0" y="{y + 4}">{html.escape(shown)}</text>'
            f'<path d="M{_LEFT} {y}H{_WIDTH - 20}" stroke="currentColor" opacity=".2"/>'
        )
        for i, version in enumerate(versions):
            began = f"batch {version.batch}, {moment(version.time)}"
            for change in version.changes:
                if change.state == name:
                    changed = changed_parts(name, change.before, change.after)
                    about = "\n".join([began, *changed])
                    drawn.append(_mark(_LEFT + step * i, y, about, not _is_nothing(change.after)))
    height = _TOP + _LANE * len(names)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" '
        'style="max-width:100%;font:12px system-ui,sans-serif" fill="currentColor">'
        f"{''.join(drawn)}</svg>"
    )


def _is_nothing(value: Any) -> bool:
    return value is None or value == []


def _mark(x: float, y: int, about: str, is_full: bool) -> str:
    inside = "#00897b" if is_full else "none"
    return (
        f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{inside}" stroke="#00897b" stroke-width="2">'
        f"<title>{html.escape(about)}</title></circle>"
    )


def _label(version: KeyVersion, x: int, anchor: str) -> str:
    return f'<text x="{x}" y="12" text-anchor="{anchor}" opacity=".75">batch {version.batch}</text>'
