"""Files and folders of a checkpoint that are lost: it is told, or nothing is wrong without them.

A query has run. Something below its state is lost: a file, a partition's folder, an operator's. If
`verify` has nothing to say of it, the query must go on as if nothing were lost, and so must one
from a savepoint. Else nobody may get wrong rows without an error.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keystate import admin

from tests.fuzz import chains


@dataclass(frozen=True)
class Program:
    """A chain, whose last run comes after the loss.

    Attributes:
        depth: of what is lost: 1 is all of an operator, 2 a partition or a record, 3 a file.
        which: says which of the paths of that depth.
    """

    chain: chains.Program
    depth: int
    which: float

    def describe(self) -> str:
        return f"{self.chain.describe()}\n  lost at depth {self.depth}: {self.which}"


def generate(rng: random.Random) -> Program:
    while True:
        chain = chains.generate(rng)
        if len(set(chain.orders)) == 1:
            return Program(chain, rng.choice((1, 1, 2, 3, 3)), rng.random())


def lose(program: Program, checkpoint: Path) -> str:
    """Deletes what the program says."""
    state = checkpoint / "state"
    there = sorted(
        each for each in state.glob("/".join("*" * program.depth)) if not each.name.endswith(".crc")
    )
    lost = there[int(program.which * len(there))]
    if lost.is_dir():
        shutil.rmtree(lost)
    else:
        lost.unlink()
        # Hadoop's checksum of a file that is not there any more.
        with suppress(FileNotFoundError):
            lost.with_name(f".{lost.name}.crc").unlink()
    return str(lost.relative_to(checkpoint))


def differences(
    lost: str,
    stream: Any,
    run: Callable[[], list[Any]],
    wanted: list[Any],
    counted: Callable[[], None],
) -> Iterator[str]:
    """What goes wrong after a loss.

    Args:
        lost: what.
        run: processes what was fed and not yet processed, from the stream's checkpoint.
        wanted: what that should emit.
    """
    checkpoint = Path(stream.checkpoint)
    told = _tried(lambda: admin.verify(str(checkpoint)))
    copy = checkpoint.with_name("savepoint")
    taken = _tried(lambda: admin.savepoint(str(checkpoint), str(copy)))
    places = [checkpoint]
    if not isinstance(taken, Exception):
        restored = checkpoint.with_name("restored")
        if not isinstance(_tried(lambda: admin.restore(str(copy), str(restored))), Exception):
            places.append(restored)
        elif told == []:
            yield f"without {lost}: verify says nothing, and a savepoint can't be restored"
    elif told == []:
        yield f"without {lost}: verify says nothing, and there is no savepoint: {taken}"
    for place in places:
        stream.checkpoint = place
        counted()
        found = _tried(run)
        if isinstance(found, Exception):
            if told == []:
                said = str(found)[:500]
                yield f"{place.name} without {lost}: verify says nothing, a start {said}"
        elif sorted(found) != sorted(wanted):
            more = [each for each in found if each not in wanted]
            yield f"{place.name} without {lost}: verify says {told}, wrong are {more[:4]}"


def _tried(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as e:
        return e
