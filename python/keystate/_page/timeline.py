"""The history of a key as a table, for terminals, and with a picture for notebooks and pages."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from keystate._codec import shorten
from keystate._kinds import TIMERS
from keystate._page.lanes import picture
from keystate._page.tables import as_html, text
from keystate._types.canonical import by_key, same
from keystate.functions import TimeDomain

HEADS = ["batch", "time", "watermark", "what changed"]


def timeline_text(title: str, versions: Sequence[Any]) -> str:
    """The batches that changed something of a key, and what."""
    return text([(_title(title, versions), HEADS, lines(versions))])


def timeline(title: str, versions: Sequence[Any]) -> str:
    """The same for a notebook or a page, below a picture of it."""
    drawn = picture(versions, [moment(one.time) for one in versions], parts)
    return (
        f"<h3>{html.escape(_title(title, versions))}</h3>{drawn}"
        f"{as_html(('', HEADS, lines(versions)))}"
    )


def lines(versions: Sequence[Any]) -> list[list[str]]:
    """A line for each state that a batch changed."""
    made = []
    for version in versions:
        first = [str(version.batch), moment(version.time), moment(version.watermark or None)]
        for change in version.changes:
            for part in parts(change.state, change.before, change.after):
                made.append([*first, part])
                first = ["", "", ""]
    return made


#: How a change of something is told: of what came, of what went, and of another value.
CHANGED = "{name}: {now}", "{name}: {was} → nothing", "{name}: {was} → {now}"


def parts(name: str, before: Any, after: Any, told: tuple[str, str, str] = CHANGED) -> list[str]:
    """What is not the same in two values of a state: of a list and a map only those parts.

    Args:
        name: the state's.
        before: the first value; ``None`` for nothing.
        after: the second one.
        told: how that is told, as ``CHANGED``.
    """
    if name == TIMERS:
        came = [f"timer set: {_timer(one)}" for one in after if one not in before]
        return [f"timer gone: {_timer(one)}" for one in before if one not in after] + came
    if isinstance(before, dict) and isinstance(after, dict):
        was_there, is_there = by_key(before), by_key(after)
        changes = []
        for found in {**was_there, **is_there}:
            key, was = was_there.get(found, (None, _NOTHING))
            key, now = is_there.get(found, (key, _NOTHING))
            if not same(was, now):
                changes.append(_change(f"{name}[{key!r}]", was, now, told))
        return changes
    if isinstance(before, list) and isinstance(after, list) and same(after[: len(before)], before):
        return [f"{name}: + {shorten(one)}" for one in after[len(before) :]]
    was, now = (_NOTHING if value is None else value for value in (before, after))
    return [_change(name, was, now, told)]


def moment(millis: int | None) -> str:
    """A time as ISO 8601 in UTC; a dash for none."""
    if millis is None:
        return "-"
    try:
        made = datetime.fromtimestamp(millis / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"
    return made.isoformat(timespec="milliseconds").replace("+00:00", "Z")


#: Stands for what is not there: an entry of a map can be null.
_NOTHING = object()


def _change(name: str, before: Any, after: Any, told: tuple[str, str, str]) -> str:
    came, went, other = told
    form = came if before is _NOTHING else went if after is _NOTHING else other
    return form.format(name=name, was=shorten(before), now=shorten(after))


def _timer(timer: tuple[TimeDomain, int]) -> str:
    domain, time = timer
    return f"{domain.name.lower().replace('_', ' ')} {moment(time)}"


def _title(title: str, versions: Sequence[Any]) -> str:
    if not versions:
        return f"{title}: no version is kept"
    return f"{title}: versions {versions[0].version} to {versions[-1].version}"
