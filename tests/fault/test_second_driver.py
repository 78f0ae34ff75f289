"""Two drivers on one checkpoint, with different numbers of partitions: the state is never a mix."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import admin
from keystate._jvm.session import FORMAT_KEY
from keystate.errors import CheckpointError

from tests.drawn import drawn
from tests.fault import batch_files
from tests.fault import second_driver_query as query
from tests.fault import second_source_query as source
from tests.fault.drivers import Driver, committed


@dataclass
class Case:
    """A query on which two drivers are.

    Attributes:
        at: where the first one waits until the second one has rescaled the query.
        fenced: whether the first one sees the second one; else as if it had looked before.
        restarts: numbers of partitions to start it with after both; None for the checkpoint's. Of
            several one is drawn, unless SLOW is set.
    """

    folder: Path
    version: str
    kind: str
    at: str
    fenced: bool
    restarts: tuple[int | None, ...]

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def argument(self) -> str:
        return f"{self.version}:{self.kind}:{self.folder}"

    def hold(self, name: str, at: str) -> None:
        (self.folder / f"{name}.{at}").touch()

    def is_held(self, name: str, at: str) -> bool:
        return (self.folder / f"{name}.{at}.waits").exists()

    def error(self, name: str) -> str:
        path = self.folder / f"{name}.error"
        return path.read_text() if path.exists() else ""


def last_counts(folder: Path) -> dict[int, int]:
    """The highest count that each key's rows had in the newest batch."""
    newest = max((folder / "output").glob("*.json"), key=lambda path: int(path.stem))
    rows = json.loads(newest.read_text())
    return {key: max(c for k, c in rows if k == key) for key in {k for k, _ in rows if k >= 0}}


def rows_of_subtasks(folder: Path) -> int:
    """What the operator state of all subtasks counted."""
    newest = max((folder / "output").glob("*.json"), key=lambda path: int(path.stem))
    rows = json.loads(newest.read_text())
    return sum(max(c for k, c in rows if k == sub) for sub in {k for k, _ in rows if k < 0})


@pytest.mark.turns
def test_second_driver_with_other_partitions(
    spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """One is in the middle of a batch when another one rescales the query, and goes on.

    It is fenced off; or, where it looked before the other one came, commits the batch with the old
    number of partitions, though the log says the new one by now.
    """
    cases = [
        Case(tmp_path / "keyed", "1", "keyed", "rows", False, (3, 4, None)),
        Case(tmp_path / "spark", "1", "spark", "rows", False, (4, 3, None)),
        Case(tmp_path / "keyed2", "2", "keyed", "rows", False, (None, 3)),
        Case(tmp_path / "spark2", "2", "spark", "rows", False, (4,)),
        Case(tmp_path / "operator", "2", "operator", "rows", False, (3, 4)),
        Case(tmp_path / "saved", "1", "keyed", "sink", False, (4,)),
        Case(tmp_path / "fenced", "1", "keyed", "sink", True, (4,)),
        Case(tmp_path / "fenced2", "2", "keyed", "sink", True, (3,)),
    ]
    cases = drawn("second drivers", cases, 4)
    arguments = [case.argument for case in cases]
    for case in cases:
        case.folder.mkdir()
        query.feed(case.folder, 0)
        case.hold("a", case.at)
        case.hold("b", "rows")
    with ExitStack() as running:
        log = tmp_path / "driver.log"
        first = running.enter_context(
            Driver("second_driver_query.py", log, "a", 4, *arguments),
        )
        first.wait_for(lambda: all(committed(case.folder) == 1 for case in cases))
        for case in cases:
            query.feed(case.folder, 1)
        first.wait_for(lambda: all(case.is_held("a", case.at) for case in cases))
        second = running.enter_context(Driver("second_driver_query.py", log, "b", 3, *arguments))
        second.wait_for(lambda: all(case.is_held("b", "rows") for case in cases))
        for case in cases:
            entry = (case.checkpoint / "offsets" / "1").read_text()
            assert '"spark.sql.shuffle.partitions":"3"' in entry, "it was not rescaled"
            if not case.fenced:
                (case.checkpoint / "_keystate" / "owners" / "2").unlink()
            (case.folder / f"a.{case.at}").unlink()
        first.wait_for(
            lambda: all(
                case.error("a") if case.fenced else committed(case.folder) == 2 for case in cases
            )
        )
    for case in cases:
        if case.fenced:
            assert "KEYSTATE_FENCED" in case.error("a") and "process" in case.error("a")
            assert committed(case.folder) == 1
        elif case.version == "1" and case.at == "rows":
            assert admin.inspect(str(case.checkpoint))["partitions"] == 4
            (problem,) = admin.verify(str(case.checkpoint))
            assert "says 3 partitions" in problem and "committed with 4" in problem
        query.feed(case.folder, 2)
        settings(**{FORMAT_KEY: case.version})
        before = case.folder.rename(tmp_path / f"{case.folder.name} before")
        for partitions in drawn(f"restart after {case.folder.name}", case.restarts, 1):
            # In its own place: the file source's log has absolute paths.
            shutil.rmtree(case.folder, ignore_errors=True)
            shutil.copytree(before, case.folder)
            settings(
                **{
                    "spark.sql.shuffle.partitions": str(partitions or 5),
                    "spark.keystate.rescale.onRestart": "auto" if partitions else "off",
                }
            )
            query.start(spark, case.folder, "c", case.kind, availableNow=True).awaitTermination()
            assert committed(case.folder) == 3
            each = 3 * query.ROWS // query.KEYS
            assert last_counts(case.folder) == dict.fromkeys(range(query.KEYS), each)
            if case.kind == "operator":
                assert rows_of_subtasks(case.folder) == 3 * query.ROWS
            assert admin.verify(str(case.checkpoint)) == []
            assert admin.inspect(str(case.checkpoint))["partitions"] == (partitions or 4)


@pytest.mark.turns
def test_rescale_and_savepoint_of_a_query_of_another_process(
    spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """A rescale is refused while its process lives; from another machine it fences it off.

    A savepoint is made all the same. Be the query waiting for rows, or in the middle of a batch.
    """
    idle = Case(tmp_path / "idle", "1", "keyed", "rows", True, ())
    busy = Case(tmp_path / "busy", "2", "keyed", "rows", True, ())
    cases = (idle, busy)
    for case in cases:
        case.folder.mkdir()
        query.feed(case.folder, 0)
    arguments = [case.argument for case in cases]
    with Driver("second_driver_query.py", tmp_path / "a.log", "a", 4, *arguments) as other:
        other.wait_for(lambda: all(committed(case.folder) == 1 for case in cases))
        busy.hold("a", busy.at)
        query.feed(busy.folder, 1)
        other.wait_for(lambda: busy.is_held("a", busy.at))
        for case in cases:
            rescale_and_savepoint(case.folder)
        (busy.folder / f"a.{busy.at}").unlink()
        query.feed(idle.folder, 1)
        other.wait_for(lambda: all(case.error("a") for case in cases))
    for case in cases:
        assert "KEYSTATE_FENCED" in case.error("a") and "rescale to 3 partitions" in case.error("a")
        settings(**{FORMAT_KEY: case.version})
        query.start(spark, case.folder, "c", "keyed", availableNow=True).awaitTermination()
        each = 2 * query.ROWS // query.KEYS
        assert last_counts(case.folder) == dict.fromkeys(range(query.KEYS), each)
        assert admin.verify(str(case.checkpoint)) == []


def rescale_and_savepoint(folder: Path) -> None:
    checkpoint, savepoint = str(folder / "checkpoint"), str(folder / "savepoint")
    with pytest.raises(CheckpointError, match=r"KEYSTATE_QUERY_IS_RUNNING.*process \d+"):
        keystate.rescale(checkpoint, 3)
    assert admin.inspect(checkpoint)["partitions"] == 4
    assert admin.savepoint(checkpoint, savepoint) == 0
    assert admin.verify(savepoint) == []

    owner = folder / "checkpoint" / "_keystate" / "owners" / "1"
    record = json.loads(owner.read_text())
    owner.write_text(json.dumps({**record, "host": "elsewhere"}))
    owner.with_name(f".{owner.name}.crc").unlink(missing_ok=True)
    # Whether it is alive is not known here. What it is rescaled to is right all the same.
    assert keystate.rescale(checkpoint, 3) == 4


@pytest.mark.turns
@pytest.mark.parametrize("version", drawn("two drivers with a source", ["1", "2"], 1))
def test_two_drivers_with_a_source(
    version: str, spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """One takes over while the other is idle, with another number of partitions of the state.

    The other writes what it has, and fails.
    """

    def driver(name: str, partitions: int) -> Driver:
        arguments = tmp_path, name, partitions, version
        return Driver("second_source_query.py", tmp_path / f"{name}.log", *arguments)

    source.allow(tmp_path, "a", 25)
    with driver("a", 2) as first:
        first.wait_for(lambda: len(numbers(tmp_path)) == 25)
        source.allow(tmp_path, "b", 45)
        with driver("b", 3) as second:
            second.wait_for(lambda: len(numbers(tmp_path)) == 45)
            done = committed(tmp_path)
            source.allow(tmp_path, "a", 70)
            assert first.wait() != 0
            assert re.search("KEYSTATE_FENCED|Concurrent update to the log", first.log)
            second.wait_for(lambda: committed(tmp_path) >= done)
    segments = list((tmp_path / "checkpoint" / "sources" / "0").glob("*.source"))
    assert len({name.name.split("_")[0] for name in segments}) < len(segments), "it wrote nothing"
    assert admin.verify(str(tmp_path / "checkpoint")) == []
    assert admin.inspect(str(tmp_path / "checkpoint"))["partitions"] == 3
    source.allow(tmp_path, "c", 70)
    settings(**{"spark.sql.shuffle.partitions": "4", FORMAT_KEY: version})
    source.start(spark, tmp_path, "c", availableNow=True).awaitTermination()
    # Each number with how many of its key there were up to then.
    assert numbers(tmp_path) == [(n, n // source.KEYS + 1) for n in range(70)]
    assert admin.verify(str(tmp_path / "checkpoint")) == []


def numbers(folder: Path) -> list[tuple[int, int]]:
    """What the committed batches gave."""
    return batch_files.emitted(folder)
