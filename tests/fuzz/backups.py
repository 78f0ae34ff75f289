"""Backups while the clock goes back and forth: the newest ones stay, and can be restored."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from keystate import admin
from keystate.tools.backups import prune

START = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Round:
    """Some micro-batches, and then a backup.

    Attributes:
        seconds: how far the clock is moved before it.
    """

    batches: int
    seconds: int


@dataclass(frozen=True)
class Program:
    keep: int
    by_reference: bool
    rounds: tuple[Round, ...]

    def describe(self) -> str:
        return "\n  ".join([f"keep {self.keep}, {self.by_reference}", *map(str, self.rounds)])


def generate(rng: random.Random) -> Program:
    rounds = (
        Round(rng.choice((0, 1, 1, 2)), rng.choice((60, 3600, 1, -7200, -90_000, 10**6)))
        for _ in range(rng.randint(3, 6))
    )
    return Program(rng.choice((1, 2, 3)), rng.random() < 0.5, tuple(rounds))


def differences(
    program: Program,
    spark: Any,
    checkpoint: Path,
    run: Callable[[int], int],
    counted: Callable[[], None],
) -> Iterator[str]:
    """What is wrong with the backups.

    Args:
        run: runs so many micro-batches; returns the id of the last one.
    """
    folder, clock, made = checkpoint.with_name("backups"), START, list[tuple[int, datetime, Path]]()
    for n, each in enumerate(program.rounds):
        last = run(each.batches + (n == 0))
        clock += timedelta(seconds=each.seconds, milliseconds=n)
        place = folder / f"{clock:%Y%m%dT%H%M%SZ}"
        if place.exists():
            continue
        known = set((checkpoint / "_keystate/savepoints").glob("*"))
        admin.savepoint(str(checkpoint), str(place), by_reference=program.by_reference)
        for record in set((checkpoint / "_keystate/savepoints").glob("[!.]*")) - known:
            _at(record, clock)
        prune(spark, str(checkpoint), f"file:{place}", program.keep)
        made.append((last, clock, place))
        newest = sorted(made)[-program.keep :]
        # The one that was just made stays, whatever the clock says.
        wanted = {path for *_, path in newest} | {place}
        found = set(folder.iterdir())
        counted()
        if not place.exists() or len(found) < min(program.keep, len(made)):
            yield f"round {n}: {place.name} is made, there are {sorted(p.name for p in found)}"
        elif not wanted >= found:
            told = [sorted(p.name for p in paths) for paths in (found, wanted)]
            yield f"round {n}: there are {told[0]}, newest are {told[1]}"
        made = [each for each in made if each[2] in found]
        for path in sorted(found):
            if wrong := admin.verify(str(path)):
                yield f"round {n}: {path.name} is damaged: {wrong}"


def _at(record: Path, clock: datetime) -> None:
    """Writes the time of a savepoint as if the clock had been this one."""
    told = json.loads(record.read_text())
    told["time"] = int(clock.timestamp() * 1000)
    record.write_text(json.dumps(told))
    crc = record.with_name(f".{record.name}.crc")
    crc.unlink(missing_ok=True)
