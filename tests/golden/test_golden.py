"""Checkpoints that earlier builds wrote go on as if there had been one build."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.golden.golden_query import BACKEND, FORMAT, INPUT, PARTITIONS, batches, build, move

HERE = Path(__file__).parent
ARCHIVES = sorted(path.name for path in HERE.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    """What the last batch of one uninterrupted run emits, filled by the first test."""
    return []


@pytest.mark.parametrize("archive", ARCHIVES)
@pytest.mark.parametrize("other", [False, True], ids=["as it was", "rescaled, other backend"])
def test_a_checkpoint_of_an_earlier_build_goes_on(
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    expected: list[Any],
    archive: str,
    other: bool,
) -> None:
    backend, checkpoint_format = archive.removesuffix(".tar.gz").split("-")[:2]
    if other:
        backend = {"hashmap": "rocksdb", "rocksdb": "hashmap"}[backend]
    settings(**{BACKEND: backend, FORMAT: checkpoint_format[1:], PARTITIONS: "3" if other else "2"})
    *first, last = batches()
    if not expected:
        whole = stream(INPUT)
        whole.feed(*first)
        whole.run(build)
        whole.feed(last)
        expected += sorted(map(tuple, whole.run(build)))
        assert len(expected) > len(last)
    fed = stream(INPUT)
    with tarfile.open(HERE / archive) as tar:
        tar.extractall(fed.checkpoint.parent, filter="data")
    move(fed.checkpoint, "CHECKPOINT", f"file:{fed.checkpoint}")
    fed.feed(last)
    assert sorted(map(tuple, fed.run(build))) == expected
