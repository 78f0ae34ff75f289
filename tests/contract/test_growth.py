"""What the page says of how fast state grows."""

from __future__ import annotations

from typing import Any

from keystate._page.growth import growth

HOUR = 3_600_000


def history(**states: list[int]) -> list[dict[str, Any]]:
    """A version each half hour."""
    return [
        {"batch": i, "time": i * HOUR // 2, "entries": dict(zip(states, counts))}
        for i, counts in enumerate(zip(*states.values()))
    ]


def test_rates_and_what_only_grows() -> None:
    found = history(keys=[0, 10, 10, 30], due=[30, 50, 40, 60], gone=[9, 6, 3, 0])
    assert growth(found, 150) == (
        "Growth in the batches 0 to 3",
        ["state", "entries", "an hour", "at this rate", "what it shows"],
        [
            ["keys", "30", "+20", "twice as many in 90 min", "it only grows: nothing was removed"],
            ["due", "60", "+20", "twice as many in 3 h", ""],
            ["gone", "0", "-6", "", ""],
            ["all", "90", "+34", "the limit of 150 is reached in 106 min", ""],
        ],
    )
    made = growth(found, 90)
    assert made is not None and made[2][-1][3] == "the limit of 90 is reached"


def test_too_little_is_known() -> None:
    assert growth(history(keys=[1, 2]), None) is None
    at_once = [{**version, "time": 5} for version in history(keys=[1, 2, 3])]
    assert growth(at_once, None) is None
    assert growth([{**version, "time": None} for version in at_once], None) is None
