"""A savepoint or an import into an object store, of which the process dies half-way."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.fault import cut_off_copy_query as query
from tests.fault.drivers import Driver
from tests.fault.faults import Plan


@pytest.mark.skipif("SLOW" not in os.environ, reason="takes a minute; set SLOW=1")
@pytest.mark.parametrize("kind", ["savepoint", "import"])
def test_unfinished_until_it_is_made_again(kind: str, tmp_path: Path) -> None:
    """The process halts when it writes the second partition's version: that is not in the copy."""
    plan = Plan(tmp_path / "plan")
    plan.add("half-way", "close", 1, "halt", r"/copy/state/0/1/[^/]*\.keystate$")

    def run(step: str) -> tuple[int, str]:
        log = tmp_path / f"{step}.log"
        with Driver("cut_off_copy_query.py", log, tmp_path, kind, step) as driver:
            return driver.wait(), driver.log

    code, log = run("cut")
    assert code != 0 and plan.happened() == {"half-way"}, log
    copy = tmp_path / "copy"
    assert (copy / "_keystate" / "unfinished").exists(), log
    assert not list(copy.glob("state/0/1/*.keystate"))
    code, log = run("again")
    assert code == 0, log
    found = json.loads((tmp_path / "found.json").read_text())
    for what, error in found["unfinished"].items():
        assert "KEYSTATE_UNFINISHED" in error, what
    assert f"KEYSTATE_{kind.upper()}_EXISTS" in found["exists"]
    assert found["batch"] == 0 and found["problems"] == []
    assert not (copy / "_keystate" / "unfinished").exists()
    assert found["emitted"] == [[key, 2 * query.EACH] for key in range(query.KEYS)]


@pytest.mark.skipif("SLOW" not in os.environ, reason="takes minutes; set SLOW=1")
@pytest.mark.parametrize("kind", ["savepoint", "import", "create", "edit"])
def test_cut_off_at_any_file(kind: str, tmp_path: Path) -> None:
    """However little of the copy there is, a query says that it is not complete, and where."""
    Plan(tmp_path / "plan")
    log = tmp_path / "log"
    with Driver("cut_off_copy_query.py", log, tmp_path, kind, "everywhere") as driver:
        assert driver.wait(600) == 0, driver.log
    found = json.loads((tmp_path / "found.json").read_text())
    # Its own metadata, two logs, and the state of two partitions are more than five files.
    assert len(found["errors"]) >= 5
    wrong = {}
    for nth, (failed, refused) in found["errors"].items():
        assert "a dead process" in failed, failed
        if "[KEYSTATE_UNFINISHED]" not in refused or f"/{nth}.copy " not in refused:
            wrong[nth] = refused[:500]
    assert wrong == {}
    assert found["last"] == "" and len(found["emitted"]) == (
        query.KEYS * query.EACH if kind == "create" else 0
    )
