"""How two values of a state differ, in words."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from keystate._types.canonical import by_key, same
from keystate._types.codec import shorten
from keystate.functions.timers import SetTimer
from keystate.state.kinds import TIMERS

#: Stands for a missing entry, since an entry of a map can be null.
_NOTHING = object()

#: The texts of a change: for an added, a removed and a changed value.
CHANGED = "{name}: {now}", "{name}: {was} → nothing", "{name}: {was} → {now}"


def changed_parts(
    name: str, before: Any, after: Any, texts: tuple[str, str, str] = CHANGED
) -> list[str]:
    """The differences of two values of a state; for lists and maps only the differing parts.

    Args:
        name: the state's name.
        before: the first value; ``None`` for nothing.
        after: the second value.
        texts: the texts of a change, in the form of ``CHANGED``.
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
                changes.append(_change(f"{name}[{key!r}]", was, now, texts))
        return changes
    if isinstance(before, list) and isinstance(after, list) and same(after[: len(before)], before):
        return [f"{name}: + {shorten(one)}" for one in after[len(before) :]]
    was, now = (_NOTHING if value is None else value for value in (before, after))
    return [_change(name, was, now, texts)]


def moment(millis: int | None) -> str:
    """A time as ISO 8601 in UTC; a dash for none."""
    if millis is None:
        return "-"
    try:
        made = datetime.fromtimestamp(millis / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"
    return made.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _change(name: str, before: Any, after: Any, texts: tuple[str, str, str]) -> str:
    came, went, other = texts
    form = came if before is _NOTHING else went if after is _NOTHING else other
    return form.format(name=name, was=shorten(before), now=shorten(after))


def _timer(timer: SetTimer) -> str:
    domain, time, *windows = timer
    of = "".join(f" of the window from {moment(start)} to {moment(end)}" for start, end in windows)
    return f"{domain.name.lower().replace('_', ' ')} {moment(time)}{of}"
