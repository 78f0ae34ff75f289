"""The charts of a page: for each a figure as plotly.js takes it, and its numbers as a table."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from keystate._types.counted import counted
from keystate.state.kinds import COLLECTIONS, StateKind
from keystate.tools.page.spread import (
    by_partition,
    choices,
    moved,
    partition_of,
    sizes_of_groups,
    skew,
)
from keystate.tools.page.tables import size

_WAITS = ("overdue", "1 min", "10 min", "1 h", "6 h", "1 day", "7 days", "later")
_AGES = (*(f"{10 * i} to {10 * (i + 1)} %" for i in range(10)), "expired")
_LARGEST = 10
_TOP_GROUPS = 16
_ENTRIES, _ELEMENTS = ("entry", "entries"), ("element", "elements")
_CATEGORIES = {"type": "category"}
_BATCHES = {**_CATEGORIES, "title": {"text": "batch"}, "nticks": 12, "tickangle": 0}
_IN_BYTES = {"title": {"text": "bytes"}, "tickformat": "~s"}


@dataclass
class Chart:
    """One chart.

    Attributes:
        title: what it shows.
        note: what has to be known to read it.
        data: plotly.js's traces.
        layout: what is not the same for all charts.
        heads: of the table with its numbers.
        rows: of that table.
    """

    title: str
    note: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    heads: list[str]
    rows: list[list[str]]


def charts(operator: dict[str, Any], statistics: dict[str, Any]) -> list[Chart]:
    """The charts of an operator, from the result of ``inspect`` and from its statistics."""
    states = [state for state in statistics["states"] if state["sample"]["entries"]]
    made: list[Chart | None] = [
        _entries(statistics["history"]),
        _bytes(statistics["history"]),
        _groups(operator, statistics["states"]),
        _partitions(operator, statistics["states"]),
        *(_largest(state) for state in states),
        _value_sizes(states),
        _timers(states),
        *(_ages(state) for state in states),
        _runs(statistics["runs"]),
    ]
    return [chart for chart in made if chart is not None]


def _entries(history: Sequence[dict[str, Any]]) -> Chart | None:
    names = list(dict.fromkeys(name for version in history for name in version["entries"]))
    if not names:
        return None
    batches = [version["batch"] for version in history]
    return Chart(
        "Entries by state",
        "After each of the last batches whose version files are kept.",
        [
            _line(html.escape(name), batches, [v["entries"].get(name) for v in history])
            for name in names
        ],
        {"xaxis": _BATCHES, "yaxis": {"rangemode": "tozero"}},
        ["batch", "at", *names],
        [
            [
                str(version["batch"]),
                _time(version["time"]),
                *(f"{version['entries'].get(name, 0):,}" for name in names),
            ]
            for version in history
        ],
    )


def _bytes(history: Sequence[dict[str, Any]]) -> Chart | None:
    if not history:
        return None
    batches = [version["batch"] for version in history]
    # A batch that ran again after a restart may have an offset that is newer than its commit.
    took = [None if v["took"] is None or v["took"] < 0 else v["took"] / 1000 for v in history]
    return Chart(
        "Bytes and time of batches",
        "Size of all runs, what the batch itself wrote, and the time between its entries in the "
        "offset log and the commit log.",
        [
            _line("all runs", batches, [v["bytes"] for v in history]),
            _bars(batches, [v["written"] for v in history], name="written"),
            {**_line("seconds", batches, took), "yaxis": "y2", "line": {"dash": "dot"}},
        ],
        {
            "xaxis": _BATCHES,
            "yaxis": {"rangemode": "tozero", **_IN_BYTES},
            "yaxis2": {
                "overlaying": "y",
                "side": "right",
                "rangemode": "tozero",
                "title": {"text": "s"},
                "showgrid": False,
                "tickmode": "auto",  # not where the ticks of the other axis are
            },
        },
        ["batch", "at", "all runs", "runs", "written", "seconds"],
        [
            [
                str(v["batch"]),
                _time(v["time"]),
                size(v["bytes"]),
                str(v["runs"]),
                size(v["written"]),
                "-" if seconds is None else f"{seconds:.2f}",
            ]
            for v, seconds in zip(history, took)
        ],
    )


def _groups(operator: dict[str, Any], states: Sequence[dict[str, Any]]) -> Chart | None:
    found = sizes_of_groups(states)
    if found is None:
        return None
    entries, sizes = found
    groups, partitions = len(entries), _partitions_of(operator)
    columns = 16 if groups <= 1024 else 128
    rows = [range(at, min(at + columns, groups)) for at in range(0, groups, columns)]
    return Chart(
        "Key groups",
        f"Bytes of each key group, {columns} in a row. A group that stands out alone has a "
        "key with much state, which no number of partitions divides.",
        [
            {
                "type": "heatmap",
                "z": [[round(sizes[group]) for group in row] for row in rows],
                "text": [
                    [
                        f"key group {group}, partition "
                        f"{partition_of(group, partitions, groups)}<br>"
                        f"{entries[group]:,} entries, about {size(round(sizes[group]))}"
                        for group in row
                    ]
                    for row in rows
                ],
                "hoverinfo": "text",
                "y": [row[0] for row in rows],
                "zmin": 0,
                "xgap": 2,
                "ygap": 2,
                "colorbar": {"tickformat": "~s", "thickness": 12},
            }
        ],
        {
            "xaxis": {"showgrid": False, "zeroline": False, "dtick": columns // 4},
            "yaxis": {
                "autorange": "reversed",
                "type": "category",
                "title": {"text": "first group of the row"},
                "nticks": 10,
            },
        },
        ["key group", "partition", "entries", "about"],
        [
            [
                str(group),
                str(partition_of(group, partitions, groups)),
                f"{entries[group]:,}",
                size(round(sizes[group])),
            ]
            for group in sorted(range(groups), key=lambda group: -sizes[group])[:_TOP_GROUPS]
        ],
    )


def _partitions(operator: dict[str, Any], states: Sequence[dict[str, Any]]) -> Chart | None:
    found = sizes_of_groups(states)
    if found is None:
        return None
    _, sizes = found
    now = _partitions_of(operator)
    numbers = choices(now, len(sizes))
    split = {n: [round(one) for one in by_partition(sizes, n)] for n in numbers}
    told = {
        n: f"{counted(n, 'partition')}: the largest has {skew(split[n]):.2f} times the mean"
        + ("" if n == now else f", {100 * moved(sizes, now, n):.0f} % of the state moves")
        for n in numbers
    }
    return Chart(
        "Partitions, and what a rescale would move",
        f"It has {counted(now, 'partition')} now. What moves is in a partition of another number "
        "afterwards, whose task reads it; no file is written again.",
        [_bars(list(range(now)), split[now], name="bytes")],
        {
            "title": {"text": told[now], "font": {"size": 13}},
            "xaxis": {**_CATEGORIES, "title": {"text": "partition"}},
            "yaxis": _IN_BYTES,
            "sliders": [
                {
                    "active": numbers.index(now),
                    "currentvalue": {"prefix": "partitions: "},
                    "pad": {"t": 40},
                    "steps": [
                        {
                            "label": str(n),
                            "method": "update",
                            "args": [
                                {"x": [list(range(n))], "y": [split[n]]},
                                {"title.text": told[n]},
                            ],
                        }
                        for n in numbers
                    ],
                }
            ],
        },
        ["partitions", "largest, as a multiple of the mean", "state that moves"],
        [
            [
                f"{n} (now)" if n == now else str(n),
                f"{skew(split[n]):.2f}",
                f"{100 * moved(sizes, now, n):.0f} %",
            ]
            for n in numbers
        ],
    )


def _largest(state: dict[str, Any]) -> Chart | None:
    top = state["sample"]["largest"][:_LARGEST]
    if not top:
        return None
    what, heading = _ELEMENTS if state["kind"] == StateKind.LIST else _ENTRIES
    many = state["kind"] in COLLECTIONS
    rest = [counted(one["elements"], what) if many else "" for one in top]
    return Chart(
        f"Largest keys of {state['name']}",
        _of_sample(state),
        [
            _bars(
                [one["bytes"] for one in top],
                list(range(len(top))),
                orientation="h",
                text=rest,
                textposition="auto",
            )
        ],
        {
            "yaxis": {
                "autorange": "reversed",
                "tickvals": list(range(len(top))),
                # A key is text from outside, of which plotly would take tags for its own.
                "ticktext": [html.escape(_short(one["key"])) for one in top],
            },
            "xaxis": _IN_BYTES,
        },
        ["key", "size", heading],
        [[one["key"], size(one["bytes"]), f"{one['elements']:,}"] for one in top],
    )


def _value_sizes(states: Sequence[dict[str, Any]]) -> Chart | None:
    kinds = [state for state in states if state["kind"] != StateKind.TIMERS]
    if not kinds:
        return None
    classes = sorted({least for state in kinds for least, _ in state["sample"]["sizes"]})
    labels = ["0" if least == 0 else f"{size(least)} on" for least in classes]
    counts = [dict(map(tuple, state["sample"]["sizes"])) for state in kinds]
    return Chart(
        "Sizes of stored values",
        "A list's values are chunks of its elements. " + _of_samples(kinds),
        [
            _bars(labels, [of.get(least, 0) for least in classes], name=html.escape(state["name"]))
            for state, of in zip(kinds, counts)
        ],
        {"xaxis": _CATEGORIES, "yaxis": {"title": {"text": "values"}}},
        ["size", *(state["name"] for state in kinds)],
        [
            [label, *(f"{of.get(least, 0):,}" for of in counts)]
            for label, least in zip(labels, classes)
        ],
    )


def _timers(states: Sequence[dict[str, Any]]) -> Chart | None:
    timers = [state for state in states if state["sample"]["due"]]
    if not timers:
        return None
    due = timers[0]["sample"]["due"]  # an operator has one family of timers
    return Chart(
        "Timers by when they are due",
        "Event-time timers by the watermark, processing-time timers by the time of the last "
        "batch. " + _of_samples(timers),
        [_bars(list(_WAITS), due)],
        {"xaxis": _CATEGORIES, "yaxis": {"title": {"text": "timers"}}},
        ["due within", "timers"],
        [[wait, f"{count:,}"] for wait, count in zip(_WAITS, due)],
    )


def _ages(state: dict[str, Any]) -> Chart | None:
    ttl = state["sample"]["ttl"]
    if ttl is None:
        return None
    lives = f"{ttl['millis'] / 1000:,.0f} s"
    without = f" {ttl['without']:,} have no age yet." if ttl["without"] else ""
    return Chart(
        f"Age of the entries of {state['name']}",
        f"As a share of the time to live, {lives}, by the clock of the last batch.{without} "
        + _of_sample(state),
        [_bars(list(_AGES), ttl["ages"])],
        {"xaxis": _CATEGORIES, "yaxis": {"title": {"text": "entries"}}},
        ["share of the time to live", "entries"],
        [[age, f"{count:,}"] for age, count in zip(_AGES, ttl["ages"])],
    )


def _runs(runs: Sequence[dict[str, Any]]) -> Chart | None:
    if not runs:
        return None
    return Chart(
        "Runs and files",
        "Of the last version, by the batch that is the newest in them: merges make few large ones "
        "of many. Small runs are inline, in version files.",
        [
            _bars(
                [run["version"] - 1 for run in runs],
                [run["bytes"] for run in runs],
                hovertext=[f"{run['files']} files, {run['inline']} inline" for run in runs],
            )
        ],
        {"xaxis": _BATCHES, "yaxis": _IN_BYTES},
        ["batch", "files", "inline", "size"],
        [
            [str(run["version"] - 1), str(run["files"]), str(run["inline"]), size(run["bytes"])]
            for run in runs
        ],
    )


def _line(name: str, x: list[Any], y: list[Any]) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y}


def _bars(x: list[Any], y: list[Any], **more: Any) -> dict[str, Any]:
    return {"type": "bar", "x": x, "y": y, **more}


def _partitions_of(operator: dict[str, Any]) -> int:
    last: int = max(part["partition"] for part in operator["partitions"])
    return last + 1


def _of_sample(state: dict[str, Any]) -> str:
    return _of_samples([state])


def _of_samples(states: Sequence[dict[str, Any]]) -> str:
    """Which part of the entries was looked at."""
    seen = sum(state["sample"]["entries"] for state in states)
    totals = [state["sample"]["of"] for state in states]
    if seen >= sum(totals):
        return f"All {seen:,} entries were looked at."
    return f"A sample: {seen:,} of {sum(totals):,} entries were looked at."


def _short(key: str) -> str:
    return key if len(key) <= 24 else f"{key[:22]}…"


def _time(millis: int | None) -> str:
    if millis is None:
        return "-"
    try:
        return datetime.fromtimestamp(millis / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OSError, OverflowError):
        return str(millis)
