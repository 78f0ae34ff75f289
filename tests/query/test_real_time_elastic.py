"""Partitions of a query in real-time mode that change while rows come."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fault.real_time_query import rows
from tests.real_time import needs_real_time, told_by

pytestmark = [needs_real_time, pytest.mark.spark]


@pytest.mark.turns
def test_partitions_change_while_rows_come(tmp_path: Path) -> None:
    """Each change cuts off a batch at most, whose rows come again: state has each row once."""
    told = told_by("tests.query.real_time_elastic_query", tmp_path)
    assert told["changes"] == [[1, 2], [2, 1], [1, 3]]
    expected = Counter(key for key, _ in rows(told["fed"]))
    assert told["state"] == sorted([list(item) for item in expected.items()])
