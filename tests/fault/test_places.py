"""Where the partitions of a query are after a change of their number, among executors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fault.drivers import Driver


@pytest.mark.turns
def test_partitions_stay_where_they_are_and_new_executors_get_work(tmp_path: Path) -> None:
    with Driver("places_query.py", tmp_path / "log", tmp_path) as driver:
        assert driver.wait(300) == 0, driver.log
    steps = json.loads((tmp_path / "found.json").read_text())
    places = []
    for number, (found, counts) in enumerate(steps, 1):
        assert counts == [number]
        assert [subtask for subtask, _ in found] == list(range(len(found)))
        places.append([executor for _, executor in found])
    four, eight, three, last = places
    assert len(set(four)) == 2
    # Each executor keeps what it has, as far as that is no more than its half.
    stayed = [executor for i, executor in enumerate(eight) if executor == four[i // 2]]
    assert len(stayed) == sum(min(4, 2 * four.count(executor)) for executor in set(four))
    assert three[0] == eight[0] and three[2] == eight[7] and len(set(three)) == 2
    # One was killed, and another one came in its place.
    (left,) = set(three) & set(last)
    assert len(last) == 4 and len(set(last)) == 2 and last.count(left) == 2
