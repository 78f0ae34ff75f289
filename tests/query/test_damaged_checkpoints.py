"""Damage in the small files of a checkpoint: an error with the file's name, never wrong results.

What is in versions and run files of state is in DamagedFilesSuite and test_admin.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import CheckpointError, KeyedProcessFunction, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY

from examples.counter_source import CounterSource
from tests.drawn import drawn

KEYS, STEP = 5, 20
SLOW = "SLOW" in os.environ


class Sum(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.n)
        yield row.n, self.total.value()


class Query:
    """A stateful source with keyed state behind it."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark = spark
        self.checkpoint = folder / "checkpoint"

    def run(self, until: int) -> list[tuple[int, int]]:
        emitted: list[tuple[int, int]] = []
        rows = keystate.source(self._spark, CounterSource(until), "n long")
        query = (
            keystate.keyed(rows.selectExpr("n", f"n % {KEYS} AS key"), "key")
            .process(Sum(), "n long, total long")
            .writeStream.foreachBatch(lambda df, _: emitted.extend(map(tuple, df.collect())))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(emitted)


def results(first: int, until: int) -> list[tuple[int, int]]:
    """What comes out for these numbers."""
    return [(n, sum(range(n % KEYS, n + 1, KEYS))) for n in range(first, until)]


def newest(folder: Path, pattern: str = "[0-9]*") -> Path:
    return max(folder.glob(pattern), key=lambda path: (path.name.zfill(60), path.name))


#: Of each kind of file the one that a restart reads, and whether it is Keystate's own.
FILES: dict[str, tuple[Callable[[Path], Path], bool]] = {
    "segment": (lambda root: newest(root / "sources/0", "*.source"), True),
    "operator record": (lambda root: root / "state/0/_keystate/operator", True),
    "offset": (lambda root: newest(root / "offsets"), False),
    "commit": (lambda root: newest(root / "commits"), False),
    "metadata of the operator": (lambda root: root / "state/0/_metadata/v2/0", False),
    "schema": (lambda root: newest(root / "state/0/_stateSchema", "*/*"), False),
    "metadata of the query": (lambda root: root / "metadata", False),
}


def damaged(good: bytes, how: str) -> bytes:
    middle = len(good) // 2
    # In the head of a long file: at a restart no more of it is needed.
    at = min(60, middle)
    return {
        "empty": b"",
        "cut off": good[:middle],
        "flipped": good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :],
        "zeros": bytes(len(good)),
    }[how]


def complaints(checkpoint: Path) -> list[str]:
    """What `keystate verify` says."""
    try:
        return admin.verify(str(checkpoint))
    except CheckpointError as e:
        return [str(e)]


@pytest.mark.turns
@pytest.mark.parametrize("checkpoint_format", drawn("small files", ["1", "2"], 1))
def test_damaged_small_files(
    checkpoint_format: str, spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    query = Query(spark, tmp_path)
    assert query.run(STEP) + query.run(2 * STEP) == results(0, 2 * STEP)
    root, kept = query.checkpoint, tmp_path / "kept"
    root.rename(kept)
    outcomes = {}
    for name, (find, own) in FILES.items():
        # A flipped bit in a file of Spark's can leave it valid: nobody can tell.
        ways = ["empty", "flipped", "cut off"] if own else ["empty", "zeros", "cut off"]
        for how in ways if own or SLOW else ways[1:]:
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(kept, root)
            file = find(root)
            file.write_bytes(damaged(file.read_bytes(), how))
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            problems = complaints(root)
            try:
                assert query.run(3 * STEP) == results(2 * STEP, 3 * STEP), (name, how)
            except AssertionError:
                raise
            except Exception as e:
                outcomes[name, how] = str(e)
                if own:
                    assert "KEYSTATE_CORRUPT_FILE" in str(e), (name, how)
                # What Spark alone reads need not be named.
                where = str(file.relative_to(root))
                if own or name in ("offset", "commit"):
                    assert where in " ".join([str(e), *problems]), (name, how, str(e), problems)
            else:
                # Of a committed batch's segment only the head is read: what is behind it was.
                assert not own or (name, how) == ("segment", "cut off"), (name, how)
            if own:
                assert any("KEYSTATE_CORRUPT_FILE" in p and file.name in p for p in problems)
    for key, outcome in outcomes.items():
        print(key, outcome[:300].replace("\n", " "))


@pytest.mark.turns
def test_damaged_owner_files(spark: Any, tmp_path: Path) -> None:
    """Only that they exist counts: their content names the owner in messages."""
    query = Query(spark, tmp_path)
    assert query.run(STEP) + query.run(2 * STEP) == results(0, 2 * STEP)
    owners = query.checkpoint / "_keystate/owners"
    for content in (b"", b"{", b"\0" * 50, b'{"host": 5, "pid": "x"}'):
        number = int(newest(owners, "*[0-9]").name)
        owner = owners / str(number)
        owner.write_bytes(content)
        owner.with_name(f".{owner.name}.crc").unlink(missing_ok=True)
        (owners / f"{number}.ended").unlink(missing_ok=True)
        assert admin.verify(str(query.checkpoint)) == []
        admin.savepoint(str(query.checkpoint), str(tmp_path / f"savepoint{number}"))
        keystate.rescale(str(query.checkpoint), 3 - number % 2)
    assert query.run(3 * STEP) == results(2 * STEP, 3 * STEP)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("left", "checkpoint_format"),
    drawn("cut off", product([b"", b"v%s", b"v%s\n", b"v%s\n{"], ["1", "2"]), 3),
)
def test_a_commit_that_is_cut_off_is_found(
    left: bytes,
    checkpoint_format: str,
    spark: Any,
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    """Spark itself takes an entry with only its first line for one without ids."""
    settings(**{FORMAT_KEY: checkpoint_format})
    query = Query(spark, tmp_path)
    assert query.run(STEP) + query.run(2 * STEP) == results(0, 2 * STEP)
    root = query.checkpoint
    assert admin.verify(str(root)) == []
    version = checkpoint_format.encode()
    for commit in sorted((root / "commits").glob("[0-9]*")):
        kept = commit.read_bytes()
        commit.write_bytes(left.replace(b"%s", version))
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
        (problem,) = admin.verify(str(root))
        assert f"commits/{commit.name} is damaged" in problem
        assert "Restore it from a copy, or go on from a savepoint" in problem
        if commit.name == "1":
            with pytest.raises(CheckpointError, match=r"commits/1 is damaged") as error:
                admin.inspect(str(root))
            assert error.value.code == "KEYSTATE_CORRUPT_FILE"
        commit.write_bytes(kept)
    assert admin.verify(str(root)) == []
