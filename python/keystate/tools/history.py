"""``keystate history``: what a key had after each micro-batch, also of a running query."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from keystate.checkpoints.history import KeyReader, KeyVersion
from keystate.checkpoints.lookup import key_from_text
from keystate.tools.page.timeline import lines


def show(
    session: SparkSession, checkpoint: str, key: str, operator: int | None, *, as_json: bool
) -> KeyFollower:
    """Prints what is kept; returns what follows the batches after that."""
    reader = KeyReader(session, checkpoint, operator)
    columns = key_from_text(reader.key_type, key)
    made = reader.history(columns)
    if as_json:
        for version in made:
            _print_json(version)
    else:
        print(made, flush=True)
    return KeyFollower(reader, columns, made[-1] if made else None, as_json)


class KeyFollower:
    """Prints what batches change of a key, as they are committed."""

    def __init__(
        self, reader: KeyReader, key: tuple[object, ...], last: KeyVersion | None, as_json: bool
    ) -> None:
        self._reader = reader
        self._key = key
        self._last = last
        self._as_json = as_json

    def follow(self, seconds: float = 1, wait: Callable[[float], None] = time.sleep) -> None:
        """Looks again and again, until it is interrupted."""
        while True:
            wait(seconds)
            for version in self._reader.versions(self._key, self._last):
                self._last = version
                if self._as_json:
                    _print_json(version)
                else:
                    for line in lines([version]):
                        print("  ".join(line), flush=True)


def _print_json(version: KeyVersion) -> None:
    if version.changes:
        print(json.dumps(version.to_json()), flush=True)
