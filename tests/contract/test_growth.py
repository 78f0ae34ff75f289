"""What the page says of how fast state grows."""

from __future__ import annotations

from typing import Any

from keystate.tools.page.growth import growth

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
        "Growth in the batches 1 to 3",
        ["state", "entries", "an hour", "at this rate", "what it shows"],
        [
            ["keys", "30", "+20", "twice as many in 90 min", "it only grows: nothing was removed"],
            ["due", "60", "+10", "twice as many in 6 h", ""],
            ["gone", "0", "-6", "", ""],
            ["all", "90", "+24", "the limit of 150 is reached in 2 h", ""],
        ],
    )
    made = growth(found, 90)
    assert made is not None and made[2][-1][3] == "the limit of 90 is reached"


def test_a_state_that_was_filled_once_does_not_grow() -> None:
    """It began empty, or small, and is flat since; one that has begun to grow only now does."""
    filled = [0, *[1000] * 49]
    later = [0, 10, *[50] * 20, *[60] * 28]
    now = [5] * 40 + list(range(6, 16))
    made = growth(history(filled=filled, later=later, now=now), None)
    assert made is not None
    told = {row[0]: row[2:] for row in made[2]}
    assert told["filled"] == told["later"] == ["+0", "", ""]
    assert told["now"][2] == "it only grows: nothing was removed"


def test_too_little_is_known() -> None:
    assert growth(history(keys=[1, 2]), None) is None
    at_once = [{**version, "time": 5} for version in history(keys=[1, 2, 3])]
    assert growth(at_once, None) is None
    assert growth([{**version, "time": None} for version in at_once], None) is None
