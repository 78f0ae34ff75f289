"""Asks that all state of a key be forgotten, without a Spark job."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from keystate._checkpoint.lookup import key_from_text, key_stream
from keystate._jvm import bridge
from keystate.errors import CheckpointError, StateTypeError


class Forgetting:
    """The operators of a query that have state by key.

    Args:
        session: the session.
        checkpoint: the query's checkpoint location.
        operator: the number of the only operator that is meant; ``None`` for all.
    """

    def __init__(self, session: SparkSession, checkpoint: str, operator: int | None) -> None:
        self._session = session
        self._checkpoint = checkpoint
        self._operator = operator
        self._key_types = {
            found["operator"]: T.StructType.fromJson(json.loads(found["key"]))
            for found in bridge.describe_forgetting(session, checkpoint, operator)
        }
        if not self._key_types:
            raise CheckpointError(
                f"no operator of {checkpoint} has state by key", code="KEYSTATE_NO_SUCH_STATE"
            )

    def request(self, key: Any) -> dict[str, Any]:
        """Writes the request; returns what :func:`keystate.admin.forget` returns."""
        return self._write(dict.fromkeys(self._key_types, key))

    def request_text(self, text: str) -> dict[str, Any]:
        """Writes the request for a key as it is typed; returns what :meth:`request` returns."""
        types = self._key_types.items()
        return self._write({operator: key_from_text(columns, text) for operator, columns in types})

    def _write(self, keys: dict[int, Any]) -> dict[str, Any]:
        try:
            streams = {
                operator: key_stream(self._key_types[operator], key, f"operator {operator}")
                for operator, key in keys.items()
            }
        except StateTypeError as e:
            if len(keys) == 1:
                raise
            raise StateTypeError(f"{e}. For one of the operators only, name it by operator=") from e
        request = bridge.forget(self._session, self._checkpoint, self._operator, streams)
        return {"request": request, "operators": list(streams)}
