"""What there must not be more of; ``make counts`` prints it."""

from __future__ import annotations

import pytest

from tests import counts

FOUND = counts.counts()


@pytest.mark.parametrize("name", counts.LIMITS)
def test_there_are_not_too_many(name: str) -> None:
    count = FOUND[name]
    assert count.number <= counts.LIMITS[name], count.where


def test_everything_that_is_counted_has_a_limit_and_is_found() -> None:
    assert set(FOUND) == set(counts.LIMITS)
    assert all(count.number > 0 for count in FOUND.values())
