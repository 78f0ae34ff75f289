"""The classes of windows by themselves, as a table that Scala has too: those of Flink's tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from keystate import DeclarationError
from keystate.windows import EventTimeSessionWindows, GlobalWindow, TimeWindow

from tests.contract.window_cases import made

TABLE = json.loads(Path(__file__).with_name("window_class_cases.json").read_text())


class At:
    """A clock."""

    def __init__(self, time: int) -> None:
        self.time = time

    def get_current_processing_time(self) -> int:
        return self.time


def pair(window: Any) -> list[int] | None:
    return None if window == GlobalWindow.get() else [window.start, window.end]


def test_where_windows_begin() -> None:
    for case in TABLE["starts"]:
        for time, start in case["starts"]:
            found = TimeWindow.get_window_start_with_offset(time, case["offset"], case["size"])
            assert found == start, (time, case)


def test_windows_that_meet() -> None:
    for one, other, meets, cover in TABLE["intersects"]:
        a, b = TimeWindow(*one), TimeWindow(*other)
        assert a.intersects(b) == b.intersects(a) == meets
        assert pair(a.cover(b)) == pair(b.cover(a)) == cover


@pytest.mark.parametrize("case", TABLE["assigners"], ids=lambda case: str(case["assigner"]))
def test_which_windows_a_row_is_in(case: Any) -> None:
    assigner = made(*case["assigner"])
    by_event_time = assigner.is_event_time()
    assert by_event_time == (case["default"] == ["EventTimeTrigger"])
    assert type(assigner.get_default_trigger()).__name__ == case["default"][0]
    for time, windows in case["windows"]:
        # Only the clock that the assigner goes by is right.
        times = (time, At(-(10**9))) if by_event_time else (-(10**9), At(time))
        found = [pair(window) for window in assigner.assign_windows("String", *times)]
        assert sorted(found, key=str) == sorted(windows, key=str)


def test_which_windows_are_merged() -> None:
    for case in TABLE["merges"]:
        merged: list[Any] = []
        EventTimeSessionWindows.with_gap(5000).merge_windows(
            [TimeWindow(*each) for each in case["windows"]],
            lambda windows, into, merged=merged: merged.append(
                [sorted(map(pair, windows)), pair(into)]
            ),
        )
        assert merged == case["merged"]


def test_what_is_refused() -> None:
    for case in TABLE["refused"]:
        with pytest.raises(DeclarationError, match="must be more than 0"):
            made(*case)
