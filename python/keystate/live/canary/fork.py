"""The fork of a query's checkpoint, and the new code's runs on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from keystate import admin
from keystate._jvm import bridge
from keystate._types.waiting import wait_until
from keystate.checkpoints.editor import CheckpointEditor, write_fork
from keystate.errors import ConfigurationError
from keystate.live.starts import begin_at

#: The pause between two looks at a query's progress, in seconds.
POLL_SECONDS = 0.05


def check_mode(spark: SparkSession, query: Any, otherwise: Callable[[], None]) -> None:
    """Raises ConfigurationError for a query in real-time mode, after a call of `otherwise`."""
    if bridge.call(spark, "isRealTime", str(query.id)):
        otherwise()
        raise ConfigurationError(
            "a query in real-time mode has no canary: it knows a micro-batch's input only at its "
            "end. Compare in another mode",
            code="KEYSTATE_CANNOT_CANARY",
        )


class NewCodeFailed(Exception):
    """The new code's own error; its text is the message."""


class Fork:
    """A fork of a checkpoint at some place, and the query of the new code on it.

    Args:
        spark: the session.
        checkpoint: the old query's.
        path: the fork's location.
        start_new: starts the new code on a checkpoint.
        edit: changes the state for the new code; None: no change.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        path: str,
        start_new: Callable[[str], Any],
        edit: Callable[[CheckpointEditor], Any] | None,
    ) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self.path = path.rstrip("/")
        self._start_new = start_new
        self.edit = edit
        self._origins: dict[int, int] | None = None
        self._same_keys: dict[int, int] | None = None
        self.query: Any = None

    def make(self, version: int | None) -> int:
        """Makes the fork, after deleting an earlier canary's; returns the fork's last batch."""
        self.drop()
        if self.edit is None:
            return self._copy(self.path, version)
        draft = f"{self.path}.draft"
        batch = self._copy(draft, version)
        editor = admin.edit(draft, spark=self._spark)
        self.edit(editor)
        self._origins, self._same_keys = editor.origins, editor.same_keys
        write_fork(editor, self.path)
        bridge.call(self._spark, "deleteFork", draft)
        return batch

    def keep(self, first: int, last: int) -> None:
        """Keeps the old query's state after batch `last`, and what each batch up to it began with.

        It also keeps which keys the batches forgot, since the states of both are compared.
        """
        self._copy(f"{self.path}.old", last + 1)
        pairs = "" if self._same_keys is None else bridge.pairs(self._same_keys)
        bridge.call(self._spark, "keepBatches", self._checkpoint, self.path, first, last, pairs)

    def run(self, batch: int, seconds: float) -> None:
        """Lets the new code run a batch of the old query, and no batch after it.

        Raises:
            NewCodeFailed: the new code did not run the batch.
        """
        self.stop()
        bridge.call(self._spark, "beginBatch", self.path, batch)
        if not bridge.call(self._spark, "limitBatches", self.path, batch):
            raise ConfigurationError(
                "the logs of the session's queries are not written by Keystate's file manager: "
                "build the session with keystate.configure, and leave "
                "spark.sql.streaming.checkpointFileManagerClass as it is",
                code="KEYSTATE_CANNOT_CANARY",
            )
        self._start()

        def has_run() -> bool:
            last = self.query.lastProgress
            return last is not None and last.batchId >= batch

        try:
            wait_until(
                lambda: has_run() or not self.query.isActive,
                f"micro-batch {batch}",
                seconds,
                POLL_SECONDS,
            )
        except TimeoutError:
            raise NewCodeFailed(f"it did not run micro-batch {batch} in {seconds:g} s") from None
        if not has_run():
            # The query's end and its last progress come at the same time.
            time.sleep(POLL_SECONDS)
            if not has_run():
                self._raise_error(f"it ended before it had run micro-batch {batch}")

    def run_on(self, batches: int, seconds: float) -> list[Any]:
        """Lets the new code run its own batches; returns the progress of those with rows.

        Raises:
            NewCodeFailed: the new code failed.
        """
        bridge.call(self._spark, "limitBatches", self.path, None)
        before = self.query.lastProgress.batchId
        if not self.query.isActive:
            self._start()

        def progress() -> list[Any]:
            recent = self.query.recentProgress
            return [one for one in recent if one.batchId > before and one.numInputRows]

        with suppress(TimeoutError):
            wait_until(
                lambda: len(progress()) >= batches or not self.query.isActive,
                f"{batches} micro-batches",
                seconds,
                POLL_SECONDS,
            )
        found = progress()
        if len(found) < batches and not self.query.isActive:
            self._raise_error(None)
        return found

    def diff(self) -> list[dict[str, Any]]:
        """The differences of both queries' states after the last batch of :meth:`keep`."""
        old = f"{self.path}.old"
        if self._origins is None:
            return admin.diff(old, self.path, spark=self._spark)
        pairs = bridge.pairs(self._origins)
        found: list[dict[str, Any]]
        found = bridge.operation(self._spark, "diffOperators", old, self.path, pairs)
        return found

    def stop(self) -> None:
        """Ends the new code's query, if it runs."""
        if self.query is not None:
            self.query.stop()
        bridge.call(self._spark, "limitBatches", self.path, None)

    def drop(self) -> None:
        """Ends the query, and deletes the fork and all its files."""
        self.stop()
        for path in (self.path, f"{self.path}.old", f"{self.path}.draft"):
            bridge.call(self._spark, "deleteFork", path)

    def _copy(self, path: str, version: int | None) -> int:
        bridge.call(self._spark, "deleteFork", path)
        batch: int = bridge.call(self._spark, "fork", self._checkpoint, path, version)
        return batch

    def _start(self) -> None:
        query = begin_at(self._spark, self._start_new, self.path)
        check_mode(self._spark, query, query.stop)
        self.query = query

    def _raise_error(self, otherwise: str | None) -> None:
        error = self.query.exception()
        if error is not None or otherwise is not None:
            raise NewCodeFailed(str(error or otherwise))
