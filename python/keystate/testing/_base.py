"""What the harnesses have in common: an operator in memory, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import Row

from keystate.errors import DeclarationError
from keystate.functions import OutputTag, TimeDomain
from keystate.testing._job import Clock, Held, Job
from keystate.testing._rows import Rows
from keystate.testing._settings import Settings
from keystate.testing._snapshot import Snapshot

H = TypeVar("H", bound="OperatorHarness")


class OperatorHarness:
    """Runs a keyed function without Spark."""

    _initial: pa.Array | None = None  # rows that the first micro-batch begins with

    def _set_up(self, fn: Any, settings: Settings, parallelism: int) -> None:
        settings.check(parallelism)
        self._settings = settings
        self._job = Job(settings.task(fn), settings, parallelism)
        self._clock = Clock(-1, 0 if settings.by_event_time else None, 0)
        self._dropped = 0
        self._output: list[Row] = []
        self._side_outputs: dict[str, list[Row]] = {t.tag_id: [] for t in settings.side_outputs}

    def _no_rows(self) -> Rows:
        """The rows of a micro-batch that has none."""
        raise NotImplementedError

    @classmethod
    def _restored(cls: type[H], snapshot: Snapshot, fn: Any, parallelism: int, **changed: Any) -> H:
        """A harness with a snapshot's arguments, but for those in `changed` that are not None."""
        arguments = {name: value for name, value in changed.items() if value is not None}
        make: Any = cls  # each class has arguments of its own
        harness: H = make(fn, parallelism=parallelism, **{**snapshot.settings, **arguments})
        harness._clock = Clock(**snapshot.clock)
        held = Held(snapshot.states, snapshot.timers, snapshot.operator, snapshot.broadcast)
        harness._job.restore(held, harness._clock)
        if snapshot.initial is not None:
            harness._initial = snapshot.initial
        return harness

    # -- life cycle ------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens the function in every subtask; otherwise a subtask does when it has work."""
        self._job.open()

    def close(self) -> None:
        """Closes the functions. What a snapshot, a peek or `output` gives remains."""
        self._job.close()

    def __enter__(self: H) -> H:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- micro-batches ---------------------------------------------------------------------------

    def advance_watermark(self, watermark: int) -> list[Row]:
        """Runs a micro-batch without rows at a new watermark, in ms; returns what its timers emit.

        A watermark before the current one leaves that as it is.
        """
        clock = self._clock._replace(watermark=self._new_watermark(watermark))
        return self._run(self._no_rows(), (), clock)

    def set_processing_time(self, time: int) -> list[Row]:
        """Runs a micro-batch without rows at this time, in ms; returns what its timers emit.

        The time stays for the micro-batches that follow. It starts at 0.
        """
        self._set_clock(time)
        return self._run(self._no_rows(), (), self._clock)

    def _new_watermark(self, watermark: int) -> int:
        now = self._clock.watermark
        if now is None:
            raise DeclarationError(
                "there is no watermark: give the harness the event_time column, with time_mode "
                "'auto' or 'event_time'",
                code="KEYSTATE_NO_WATERMARK",
            )
        return max(watermark, now)

    def _set_clock(self, time: int) -> None:
        now = self._clock.processing_time
        if time < now:
            raise ValueError(f"processing time can't go back from {now} to {time}")
        self._clock = self._clock._replace(processing_time=time)

    def _clock_at(self, watermark: int | None, processing_time: int | None) -> Clock:
        """The times of a micro-batch that is told these."""
        clock = self._clock
        if watermark is not None:
            clock = clock._replace(watermark=self._new_watermark(watermark))
        if processing_time is not None:
            self._set_clock(processing_time)
            clock = clock._replace(processing_time=processing_time)
        return clock

    def _run(
        self,
        rows: Rows,
        late: Sequence[list[Row]],
        clock: Clock,
        elements: pa.Array | None = None,
    ) -> list[Row]:
        """Runs a micro-batch at these times; `late` has the rows of each input that are late."""
        clock = clock._replace(batch_id=self._clock.batch_id + 1)
        results = self._main(self._job.run(rows, elements, clock, self._clock))
        self._clock = clock
        self._output += results
        for tag, mine in zip(self._settings.late_outputs, late):
            kept = None if tag is None else self._side_outputs.get(tag.tag_id)
            if kept is None:
                self._dropped += len(mine)
            else:
                kept += mine
        return results

    def _main(self, results: list[Row]) -> list[Row]:
        """Those of the main output; the others are kept."""
        if not self._side_outputs:
            return results
        main = []
        for main_row, *others in results:
            if main_row is not None:
                main.append(main_row)
            for kept, row in zip(self._side_outputs.values(), others):
                if row is not None:
                    kept.append(row)
        return main

    # -- looking at it ---------------------------------------------------------------------------

    def output(self) -> list[Row]:
        """What was emitted since the beginning, or since :meth:`take_output`."""
        return list(self._output)

    def take_output(self) -> list[Row]:
        """What was emitted since the last call of this method, or since the beginning."""
        taken, self._output = self._output, []
        return taken

    def side_output(self, tag: OutputTag) -> list[Row]:
        """What was emitted to a side output since the beginning."""
        if tag.tag_id not in self._side_outputs:
            raise DeclarationError(f"give the harness side_outputs with {tag!r}")
        return list(self._side_outputs[tag.tag_id])

    def state(self, key: Any, name: str) -> Any:
        """What is stored of a key's state; a copy.

        Args:
            key: the bare value for one key column, a tuple for several.
            name: the descriptor's.

        Returns:
            The value, or the accumulator; ``None`` if there is none. Of a list state a list, of a
            map state a dict, of a sorted one in its order.
        """
        for store in self._job.stores:
            if store.spec.name == name:
                return store.peek(self._job.keys.of_user(key))
        raise DeclarationError(f"the function has no state '{name}'")

    def broadcast_state(self, name: str, subtask: int = 0) -> dict[Any, Any]:
        """What a subtask has of a broadcast state; a copy."""
        entries = self._job.broadcast[subtask].peek(name)
        if entries is None:
            raise DeclarationError(f"the function has no broadcast state '{name}'")
        return entries

    def timers(self, key: Any) -> list[tuple[TimeDomain, int]]:
        """A key's timers that are set: domain and time in ms."""
        wanted = self._job.keys.of_user(key)
        return sorted(
            ((TimeDomain(t.domain), t.time) for t in self._job.timers if t.key == wanted),
            key=lambda timer: (timer[1], timer[0].value),
        )

    def subtask_of(self, key: Any) -> int:
        """The index of the subtask that has a key."""
        keys = self._job.keys
        return keys.subtask_of(keys.of_user(key))

    @property
    def num_keys(self) -> int:
        """How many keys have state or timers."""
        keys = {timer.key for timer in self._job.timers}
        for store in self._job.stores:
            keys.update(key for key in store.cells if store.cell(key) is not None)
        return len(keys)

    @property
    def num_late_rows(self) -> int:
        """How many rows were dropped for coming behind the watermark. Late outputs drop none."""
        return self._dropped

    @property
    def watermark(self) -> int | None:
        """The watermark in ms; ``None`` without an event time column."""
        return self._clock.watermark

    @property
    def processing_time(self) -> int:
        """The processing time in ms."""
        return self._clock.processing_time

    def snapshot(self) -> Snapshot:
        """All state as it is now."""
        clock = self._clock._asdict()
        initial = self._initial if self._clock.batch_id < 0 else None
        return Snapshot(self._settings.as_arguments(), clock, *self._job.snapshot(), initial)
