"""Replaces old code by new code on the old code's checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from keystate import admin
from keystate._jvm import bridge
from keystate.checkpoints.editor import CheckpointEditor, write_successor
from keystate.live.starts import begin_at, is_same, make_sure
from keystate.live.stopping import stop_after_batch

log = logging.getLogger("keystate")


class Promotion:
    """The steps of a promotion; if it is cut off after any step, another start continues it.

    Args:
        spark: the session.
        checkpoint: the old code's checkpoint location.
        edit: changes the state for the new code; None: no change.
        to: the location of the changed copy; None if there is none.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        edit: Callable[[CheckpointEditor], Any] | None,
        to: str | None,
    ) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._edit = edit
        self._to = to
        self._batch = -1
        self._same_keys: dict[int, int] = {}
        self._is_stopped = False

    def run(self, old: Any, start: Callable[[str], Any], timeout_seconds: float) -> Any:
        """Ends the old query, and starts the new one; returns it once it is known to work."""
        if self._to is not None and not self._has_moved(self._to):
            bridge.call(self._spark, "checkPromotionTarget", self._to)
        if old is not None and old.isActive:
            stop_after_batch(old, timeout_seconds=timeout_seconds, spark=self._spark)
        bridge.call(self._spark, "checkStopped", self._checkpoint)
        self._is_stopped = True
        place = self._checkpoint
        if self._edit is not None and self._to is not None:
            self._move(self._edit, self._to)
            place = self._to
        query = begin_at(self._spark, start, place)
        make_sure(self._spark, query)
        log.info("New code goes on with %s", place)
        return query

    def _move(self, edit: Callable[[CheckpointEditor], Any], to: str) -> None:
        """Replaces the checkpoint by a changed copy, unless that was done already."""
        if self._has_moved(to):
            return
        bridge.call(self._spark, "beginPromotion", self._checkpoint, to)
        try:
            editor = admin.edit(self._checkpoint, spark=self._spark)
            edit(editor)
            self._batch = write_successor(editor, to)
            self._same_keys = editor.same_keys
            self._exchange("promote")
        finally:
            bridge.call(self._spark, "endPromotion", self._checkpoint, to)

    def _has_moved(self, to: str) -> bool:
        moved = bridge.call(self._spark, "movedTo", self._checkpoint)
        return is_same(self._spark, moved, to)

    def may_go_back(self) -> bool:
        """Puts the old checkpoint back in its place, so that the old code can start.

        False if the old code still runs, or if the new code has committed a micro-batch to the
        copy.
        """
        if not self._is_stopped:
            return False
        if self._to is None or not bridge.call(self._spark, "movedTo", self._checkpoint):
            return True
        undone: bool = self._exchange("undoPromotion")
        return undone

    def _exchange(self, method: str) -> Any:
        """Replaces the checkpoint by the copy, or the copy by the checkpoint again."""
        same_keys = bridge.pairs(self._same_keys)
        return bridge.call(self._spark, method, self._checkpoint, self._to, self._batch, same_keys)

    def go_back(self, start_old: Callable[[str], Any]) -> Any:
        """Starts the old code."""
        query = begin_at(self._spark, start_old, self._checkpoint)
        log.warning("The new code does not start on %s: the old one goes on", self._checkpoint)
        return query
