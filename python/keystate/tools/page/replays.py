"""Replays as tables."""

from __future__ import annotations

from keystate._types.codec import shorten
from keystate._types.counted import counted
from keystate.live.replay.all_keys import Replays
from keystate.live.replay.steps import Replay
from keystate.tools.page.tables import Table, as_html, text


def replay_text(replay: Replay | Replays) -> str:
    """One for a terminal."""
    return f"{text([_table(replay)])}\n\n{replay.verdict()}"


def replay_html(replay: Replay | Replays) -> str:
    """One for a notebook."""
    lines = [[line] for line in replay.verdict().splitlines()]
    return as_html(_table(replay)) + as_html(("", ["result"], lines))


def _table(replay: Replay | Replays) -> Table:
    return _of_one(replay) if isinstance(replay, Replay) else _of_all(replay)


def _of_one(replay: Replay) -> Table:
    """A line for each change and each result of each step."""
    late = f", {counted(replay.late, 'row')} late" if replay.late else ""
    title = f"Key {replay.key!r}, batch {_batches(replay)}: {counted(len(replay), 'step')}{late}"
    made = []
    for step in replay.steps:
        changes, results = step.changes(), step.results()
        head = [str(step.batch), step.what()]
        for i in range(max(len(changes), len(results), 1)):
            cells = [lines[i] if i < len(lines) else "" for lines in (changes, results)]
            made.append([*(head if i == 0 else ["", ""]), *cells])
    return title, ["batch", "row or timer", "what changed", "emitted"], made


def _of_all(replays: Replays) -> Table:
    """A line for each key, and one for each further difference."""
    title = f"Batch {_batches(replays)}: {counted(len(replays), 'key')}"
    lines = []
    for one in replays.values():
        found = [str(each) for each in one.differences]
        if not found:
            found = ["as in the checkpoint" if one.committed else "not committed"]
        emitted = sum(len(step.emitted) for step in one)
        lines.append([shorten(one.key), str(len(one)), str(emitted), found[0]])
        lines += [["", "", "", more] for more in found[1:]]
    return title, ["key", "steps", "emitted", "states and timers"], lines


def _batches(replay: Replay | Replays) -> str:
    last = f" to {replay.batches[-1]}" if len(replay.batches) > 1 else ""
    return f"{replay.batches[0]}{last}"
