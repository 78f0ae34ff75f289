"""Operator state is dealt out by one table, which the Scala code is tested with too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from keystate._worker.operator_state.operator_states import redistribute

TABLE = json.loads(Path(__file__).with_name("redistribution_cases.json").read_text())


@pytest.mark.parametrize(
    "case", TABLE["cases"], ids=lambda case: f"{len(case['before'])} to {len(case['after'])}"
)
def test_table(case: dict[str, Any]) -> None:
    before, after = case["before"], case["after"]
    assert redistribute(before, set(TABLE["unions"]), len(after)) == after
    # The same number: even split lists stay where they are, union lists are everybody's.
    for own, kept in zip(before, redistribute(before, set(TABLE["unions"]), len(before))):
        split = {name for name in own if name not in TABLE["unions"]}
        assert {name: kept[name] for name in split} == {name: own[name] for name in split}
