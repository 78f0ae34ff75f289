"""The commands for savepoints; also at fixed times, of which the newest are kept."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from keystate import admin
from keystate._jvm import bridge
from keystate._types.counted import counted
from keystate.errors import KeystateError
from keystate.tools.page import text

#: Prints what was found: as JSON, or as text.
Tell = Callable[[dict[str, Any], str], None]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_SECONDS = 3650 * 86400
_NAME = re.compile(r"\d{8}T\d{6}Z")
#: What a call that reads or changes checkpoints may fail with, so that the next one is tried.
_REFUSALS = (KeystateError, PySparkException)
#: How old a savepoint is that is not finished, before it is taken for one that was cut off.
_LEASE_SECONDS = 3600


def seconds(given: str) -> int:
    """``90s``, ``15m``, ``1h`` or ``1d`` as seconds."""
    found = re.fullmatch(r"([1-9]\d{0,6})([smhd])", given)
    if not found:
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 15m, 1h or 1d, got {given}")
    length = int(found[1]) * _UNITS[found[2]]
    if length > _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"must be at most {_MOST_SECONDS // 86400}d, got {given}")
    return length


def original(command: argparse.ArgumentParser) -> None:
    """Adds the option ``--original``."""
    command.add_argument(
        "--original",
        metavar="CHECKPOINT",
        help="of a savepoint by reference that is gone already: what it was made from",
    )


def by_reference(command: argparse.ArgumentParser) -> None:
    """Adds the option ``--by-reference``."""
    command.add_argument(
        "--by-reference",
        action="store_true",
        help="share the state's files instead of copying them",
    )


def options(command: argparse.ArgumentParser) -> None:
    """Adds the options of ``keystate savepoint`` for more than one copy."""
    by_reference(command)
    command.add_argument(
        "--every",
        type=seconds,
        metavar="TIME",
        help="go on, and make one each 15m, 1h or 1d, in a folder of its own below the path",
    )
    command.add_argument("--keep", type=int, default=24, help="with --every: how many; 24")


def savepoint(spark: SparkSession, given: argparse.Namespace, tell: Tell) -> int:
    """``keystate savepoint``."""
    if given.every:
        if given.of_version is not None or given.keep < 1:
            raise ValueError("--every goes without --of-version, and keeps at least one savepoint")
        with suppress(KeyboardInterrupt):
            _take(spark, given, tell)
        return 0
    batch = admin.savepoint(
        given.checkpoint,
        given.path,
        version=given.of_version,
        by_reference=given.by_reference,
        spark=spark,
    )
    tell({"batch": batch}, f"{given.path} has the state after batch {batch}")
    return 0


def show(spark: SparkSession, given: argparse.Namespace, tell: Tell) -> int:
    """``keystate savepoints``."""
    found = admin.savepoints(given.checkpoint, spark=spark)
    heads = ["savepoint", "batch", "age", "kind", "bytes", "shared", "state"]
    rows = [
        [
            one["savepoint"],
            str(one["batch"]),
            str(timedelta(seconds=round(time.time() - one["time"] / 1000))),
            one["kind"],
            str(one["bytes"]),
            str(one["shared_bytes"]),
            one["state"],
        ]
        for one in found
    ]
    tell({"savepoints": found}, text([("", heads, rows)]))
    return 0


def restore(spark: SparkSession, given: argparse.Namespace, tell: Tell) -> int:
    """``keystate restore``."""
    batch = admin.restore(
        given.savepoint, given.checkpoint, by_reference=given.by_reference, spark=spark
    )
    tell({"batch": batch}, f"{given.checkpoint} has the state after batch {batch}")
    return 0


def delete(spark: SparkSession, given: argparse.Namespace, tell: Tell) -> int:
    """``keystate delete``."""
    kept = admin.delete(given.checkpoint, original=given.original, spark=spark)
    stay = (
        f"; {counted(kept, 'file')} {'stays' if kept == 1 else 'stay'} for savepoints"
        if kept
        else ""
    )
    tell({"kept": kept}, f"{given.checkpoint} is deleted{stay}")
    return 0


def _take(spark: SparkSession, given: argparse.Namespace, tell: Tell) -> None:
    """Makes a savepoint again and again, in folders named by the time in UTC.

    Raises what the first one fails with. Later ones are tried again at the next time.
    """
    is_first = True
    while True:
        began = time.monotonic()
        place = f"{given.path.rstrip('/')}/{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"
        try:
            batch = admin.savepoint(
                given.checkpoint, place, by_reference=given.by_reference, spark=spark
            )
        except _REFUSALS as error:
            if is_first:
                raise
            print(f"keystate: no savepoint at {place}: {error}", file=sys.stderr, flush=True)
        else:
            took = time.monotonic() - began
            deleted, kept = prune(spark, given.checkpoint, place, given.keep)
            tell(
                {
                    "savepoint": place,
                    "batch": batch,
                    "seconds": took,
                    "deleted": deleted,
                    "kept": kept,
                },
                f"{place} has the state after batch {batch}, in {took:.1f} s"
                + "".join(f"; deleted {old}" for old in deleted)
                + "".join(f"; kept {old}: {why}" for old, why in kept.items()),
            )
        is_first = False
        time.sleep(max(0.0, given.every - (time.monotonic() - began)))


def prune(
    spark: SparkSession, checkpoint: str, newest: str, keep: int
) -> tuple[list[str], dict[str, str]]:
    """Deletes old savepoints of those that were made by time, and those that were cut off.

    What a savepoint has, and not the clock, says how old it is. One that a query has gone on from
    has more than a savepoint by now, so it is kept.

    Args:
        spark: the session.
        checkpoint: what they are of.
        newest: the one that was made last, which stays. What is in other folders or buckets than it
            is left alone.
        keep: how many stay, besides those that a query has gone on from.

    Returns:
        Where the deleted ones were; and those that had to go and stay, each with the reason.
    """
    kept: dict[str, str] = {}
    try:
        beside = bridge.operation(spark, "savepointsBeside", checkpoint, newest)
    except _REFUSALS as error:
        return [], {newest.rpartition("/")[0]: str(error)}
    made = [one for one in beside if _NAME.fullmatch(one["name"])]
    now = time.time()
    whole = [one for one in made if one["state"] == "ok"]
    wanted = max(0, len(whole) - keep)
    old = [one for one in whole if not _is_at(one, newest)][:wanted]
    # They are in order of what they have, so those before the first that stays are old.
    first = next((one for one in whole if one not in old), None)
    for one in made:
        if one is first:
            break
        if one["state"] == "used":
            kept[one["savepoint"]] = "a query has gone on from it"
    cut_off = [
        one
        for one in made
        if one["state"] == "unfinished" and now - one["time"] / 1000 > _LEASE_SECONDS
    ]
    deleted = []
    for one in [*old, *cut_off]:
        try:
            admin.delete(one["savepoint"], spark=spark)
            deleted.append(one["savepoint"])
        except _REFUSALS as error:
            kept[one["savepoint"]] = str(error)
    return deleted, kept


def _is_at(savepoint: dict[str, Any], place: str) -> bool:
    """Whether it is the one of this name; all are in one folder."""
    name: str = savepoint["name"]
    return name == place.rpartition("/")[2]
