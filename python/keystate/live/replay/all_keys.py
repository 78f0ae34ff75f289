"""The result of a replay of all keys of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from keystate._types.codec import hashable
from keystate._types.counted import counted
from keystate.checkpoints.shown import Shown
from keystate.live.replay.steps import (
    COLUMNS,
    Difference,
    Replay,
    as_frame,
    json_of,
    told_of_unrecorded,
)


class Replays(Shown, Mapping[Any, Replay]):
    """Micro-batches that have run again for all their keys: the replay of each key.

    It prints, and shows itself in a notebook: a line for each key.

    Attributes:
        batches: the micro-batches.
    """

    def __init__(self, batches: Sequence[int], replays: Sequence[Replay]) -> None:
        self.batches = list(batches)
        self._of = {hashable(one.key): one for one in replays}

    def __getitem__(self, key: Any) -> Replay:
        return self._of[hashable(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    @property
    def same(self) -> bool:
        """Whether each key has after each batch what it has in the checkpoint."""
        return all(one.same for one in self.values())

    @property
    def differences(self) -> dict[Any, list[Difference]]:
        """The differences from the checkpoint, for each key that has some."""
        return {key: one.differences for key, one in self.items() if not one.same}

    def verdict(self) -> str:
        """Whether the function gives the same as before, in one or several lines."""
        calls = list(dict.fromkeys(call for one in self.values() for call in one.unrecorded))
        return "\n".join([self._compared(), *told_of_unrecorded(calls)])

    def _compared(self) -> str:
        if self.differences:
            return (
                "The function gives something else than the checkpoint has, for "
                f"{len(self.differences)} of {counted(len(self), 'key')}."
            )
        if not all(one.committed for one in self.values()):
            return "The last batch is not committed: there is nothing to compare it with."
        return "The function gives what it gave: states and timers are those of the checkpoint."

    def to_df(self, spark: SparkSession | None = None) -> DataFrame:
        """The steps of all keys as a DataFrame, as :meth:`Replay.to_df`, with the key as JSON.

        Args:
            spark: the session; by default the active one.
        """
        rows = [(json_of(one.key), *row) for one in self.values() for row in one.as_rows()]
        return as_frame(rows, f"key string, {COLUMNS}", spark)
