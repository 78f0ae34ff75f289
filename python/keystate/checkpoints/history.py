"""One key's states after each kept micro-batch, without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate._types.canonical import same
from keystate._types.plain import to_json
from keystate.checkpoints.lookup import decoded, key_columns, key_stream
from keystate.checkpoints.shown import Shown
from keystate.functions.timers import SetTimer, set_timer_of
from keystate.state.kinds import TIMERS, StateKind

_NEWEST = 2**63 - 1


@dataclass(frozen=True)
class Change:
    """A micro-batch's change of one of a key's states, or of its timers.

    Attributes:
        state: the state's name; ``$timers`` for the timers.
        before: the value before; ``None`` for nothing.
        after: the value after. Timers are a list of pairs of their domains and times in ms.
    """

    state: str
    before: Any
    after: Any

    def told(self, value: Any) -> Any:
        """One of the two values in its JSON form."""
        if self.state == TIMERS:
            return [[domain.name, time] for domain, time in value]
        return to_json(value)


@dataclass(frozen=True)
class KeyVersion:
    """A key's states and timers after a micro-batch.

    Attributes:
        version: the version of the state, N + 1 after batch N.
        batch: the micro-batch.
        time: the micro-batch's recorded time, in ms since the epoch.
        watermark: the micro-batch's watermark, in ms since the epoch; 0 while there is none.
        states: the states' values by name, without states that have nothing.
        timers: the timers that are set, in order: domains and times in ms, and of a window's timer
            the window's start and end.
        changes: the changes since the version before; for the first kept version, all values.
    """

    version: int
    batch: int
    time: int | None
    watermark: int | None
    states: dict[str, Any]
    timers: list[SetTimer]
    changes: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        """The version in its JSON form."""
        return {
            "version": self.version,
            "batch": self.batch,
            "time": self.time,
            "watermark": self.watermark,
            "changes": [
                {"state": one.state, "before": one.told(one.before), "after": one.told(one.after)}
                for one in self.changes
            ],
        }


class History(Shown, list[KeyVersion]):
    """The versions of a key, oldest first: a list. It prints, and shows itself in a notebook.

    Attributes:
        key: the key.
        operator: the operator's number.
    """

    def __init__(self, key: Any, operator: int) -> None:
        super().__init__()
        self.key = key
        self.operator = operator


class KeyReader:
    """Reads the states and timers of a key in one operator.

    Args:
        session: the session.
        checkpoint: the query's checkpoint location.
        operator: the operator's number; ``None`` if there is one of Keystate's.
    """

    def __init__(self, session: SparkSession, checkpoint: str, operator: int | None) -> None:
        self.session = session
        self._checkpoint = checkpoint
        found = bridge.operation(session, "describeOperator", checkpoint, operator)
        self.operator: int = found["operator"]
        self.name: str = found["name"]
        self.max_parallelism: int = found["max_parallelism"]
        self.key_type = T.StructType.fromJson(json.loads(found["key"]))

    def stored(self, key: Any, first: int, until: int = _NEWEST) -> list[dict[str, Any]]:
        """The jar's answer: for each of these versions, the changes since the version before."""
        stream = self._stream(key)
        found = bridge.operation(
            self.session, "history", self._checkpoint, self.operator, stream, first, until
        )
        versions: list[dict[str, Any]] = found["versions"]
        return versions

    def columns(self, key: Any) -> Any:
        """A key as a row of its columns.

        Raises:
            StateTypeError: the key does not fit the columns' types.
        """
        self._stream(key)
        return key_columns(self.key_type, key)

    def _stream(self, key: Any) -> str:
        return key_stream(self.key_type, key, f"operator {self.operator}")

    def history(self, key: Any) -> History:
        """All versions that are kept."""
        columns = key_columns(self.key_type, key)
        bare = len(self.key_type) == 1 and isinstance(columns, tuple)
        made = History(columns[0] if bare else columns, self.operator)
        made += self.versions(key)
        return made

    def versions(self, key: Any, last: KeyVersion | None = None) -> Iterator[KeyVersion]:
        """The versions after `last`; without it all that are kept."""
        for i, found in enumerate(self.stored(key, 0 if last is None else last.version)):
            if last is None or found["version"] > last.version:
                last = _version(found, last, is_whole=i == 0)
                yield last


def _version(found: dict[str, Any], before: KeyVersion | None, is_whole: bool) -> KeyVersion:
    was: dict[str, Any] = {} if before is None else dict(before.states)
    states = {n: value for n, value in was.items() if not is_whole and n not in found["gone"]}
    for one in found["states"]:
        states[one["state"]] = value_of(one)
    states = {name: value for name, value in states.items() if value is not None}
    timers = [] if before is None else before.timers
    if found.get("timers") is not None:
        timers = [set_timer_of(*timer) for timer in found["timers"]]
    names = dict.fromkeys([*was, *states])
    changes = [Change(name, was.get(name), states.get(name)) for name in names]
    changes.append(Change(TIMERS, [] if before is None else before.timers, timers))
    return KeyVersion(
        found["version"],
        found["batch"],
        found.get("began_at"),
        found.get("watermark"),
        states,
        timers,
        tuple(change for change in changes if not same(change.before, change.after)),
    )


def value_of(found: dict[str, Any]) -> Any:
    """A state's value from the jar's answer, in the form that a function sees."""
    key_type = found.get("key_type")
    return decoded(
        bridge.record_batch(found["rows"]),
        StateKind(found["kind"]),
        T._parse_datatype_json_string(found["value_type"]),
        None if key_type is None else T._parse_datatype_json_string(key_type),
    )
