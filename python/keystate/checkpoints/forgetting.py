"""Requests that a query forgets a key, and looks for the key's traces. No Spark job runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate.checkpoints.lookup import key_from_text, key_stream
from keystate.errors import CheckpointError, StateTypeError


class Forgetting:
    """The operators of a query that have state by key.

    Args:
        session: the session.
        checkpoint: the query's checkpoint location.
        operator: the number of the only operator to look at; ``None`` for all.
    """

    def __init__(self, session: SparkSession, checkpoint: str, operator: int | None) -> None:
        self._session = session
        self._checkpoint = checkpoint
        self._operator = operator
        self._key_types = {
            found["operator"]: T.StructType.fromJson(json.loads(found["key"]))
            for found in bridge.operation(session, "describeForgetting", checkpoint, operator)
        }
        if not self._key_types:
            raise CheckpointError(
                f"no operator of {checkpoint} has state by key", code="KEYSTATE_NO_SUCH_STATE"
            )

    def request(self, key: Any) -> dict[str, Any]:
        """Writes the request; returns what :func:`keystate.admin.forget` returns."""
        streams = self._streams(key)
        made = self._operation("forget", streams)
        return {"request": made["request"], "operators": list(streams)}

    def traces(self, key: Any) -> dict[str, Any]:
        """The result of :func:`keystate.admin.traces`."""
        streams = self._streams(key)
        found = self._operation("traces", streams)
        return {"key": bool(found["files"] or found["requests"] or found["claims"]), **found}

    def _operation(self, method: str, keys: dict[int, str]) -> Any:
        told = json.dumps([{"operator": number, "key": key} for number, key in keys.items()])
        return bridge.operation(self._session, method, self._checkpoint, self._operator, told)

    def from_text(self, text: str) -> Typed:
        """A key from the text that a user typed, for the methods above."""
        types = self._key_types.items()
        return Typed({operator: key_from_text(columns, text) for operator, columns in types})

    def _streams(self, key: Any) -> dict[int, str]:
        typed = key.by_operator if isinstance(key, Typed) else dict.fromkeys(self._key_types, key)
        try:
            return {
                operator: key_stream(self._key_types[operator], of, f"operator {operator}")
                for operator, of in typed.items()
            }
        except StateTypeError as e:
            if len(typed) == 1:
                raise
            raise StateTypeError(f"{e}. For one of the operators only, name it by operator=") from e


@dataclass(frozen=True)
class Typed:
    """A key in the types of each operator's key columns."""

    by_operator: dict[int, Any]


def told(found: dict[str, Any]) -> str:
    """The text for the terminal: which traces of a key are left, and until when."""
    newest, lines = found["version"], []
    if found["requests"]:
        lines.append("a request waits for the next micro-batch")
    lines += [
        f"batch {batch} forgot it, and what it left is still looked for"
        for batch in found["claims"]
    ]
    for one in found["files"]:
        if newest in one["versions"]:
            until = "the newest version: until maintenance merged it and a batch took that"
        elif one["versions"]:
            until = f"versions up to {one['versions'][-1]}: until these are not kept any more"
        else:
            until = "no version: until it is cleaned up"
        lines.append(f"{one['file']} has it, of {until}")
    return "\n".join(lines) or "nothing in the checkpoint has the key"
