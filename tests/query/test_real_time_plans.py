"""Functions next to Spark's own stateful operators, and to each other, in real-time mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_time import needs_real_time, told_by

pytestmark = [needs_real_time, pytest.mark.spark]


@pytest.mark.turns
def test_three_stages(tmp_path: Path) -> None:
    told = told_by("tests.query.real_time_plans_query", tmp_path)
    assert told == {
        "dropDuplicates, then a function": [[1, 1], [2, 1], [3, 1]],
        # The sums of key 1 are 1, 4 and 9.
        "an aggregation, then a function": [[1, 4], [3, 4], [1, 9]],
        # Keys, with how many had the same count before.
        "a function, then another by its result": [[1, 1], [2, 2], [1, 1], [3, 3], [1, 1]],
        # Sums of counts.
        "a function, then an aggregation": [[1, 1], [2, 1], [1, 3], [3, 1], [1, 6]],
    }
