"""The base of the harnesses: an operator in memory, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from keystate._operators.schema_rows import SchemaRows
from keystate.errors import DeclarationError
from keystate.functions import OutputTag, TimeDomain
from keystate.functions.timers import SetTimer
from keystate.testing._job import Clock, Held, Job
from keystate.testing._rows import Rows
from keystate.testing._setup import Setup
from keystate.testing._snapshot import Snapshot
from keystate.testing._stores import Timer

H = TypeVar("H", bound="OperatorHarness")


class OperatorHarness:
    """Runs a function with state without Spark."""

    _initial: pa.Array | None = None  # rows that the first micro-batch begins with
    _arguments: dict[str, Any] | None = None  # of the short form, apart from the function

    @classmethod
    def of(
        cls: type[H],
        made: DataFrame,
        *,
        parallelism: int = 1,
        side_outputs: Sequence[OutputTag] = (),
        pickle_allow: Sequence[str] = (),
    ) -> H:
        """A harness of an operator, built as in a query, of :func:`keystate.testing.rows_of`.

        >>> clicks = keystate.testing.rows_of("user string, time timestamp", event_time="time")
        >>> KeyedProcessHarness.of(keystate.keyed(clicks, "user").process(Sessions(), OUTPUT))

        Args:
            made: the operator's output, a DataFrame that a stream's method returned.
            parallelism: the number of subtasks.
            side_outputs: the side outputs that :meth:`side_output` shows; results for others are
                dropped.
            pickle_allow: like the setting ``spark.keystate.pickle.allow``.

        Raises:
            DeclarationError: as for a query; or the operator is not of the harness's class.
        """
        harness = cls.__new__(cls)
        harness._set_up(made, parallelism, 128, side_outputs, pickle_allow)
        return harness

    def _set_up(
        self,
        made: DataFrame,
        parallelism: int,
        max_parallelism: int,
        side_outputs: Sequence[OutputTag],
        pickle_allow: Sequence[str],
    ) -> None:
        setup = Setup(made, parallelism, max_parallelism, side_outputs, pickle_allow)
        self._setup = setup
        self._read_inputs(setup)
        self._job = Job(setup)
        self._clock = Clock(-1, 0 if setup.by_event_time else None, 0)
        self._dropped = 0
        self._output: list[Row] = []
        self._side_outputs: dict[str, list[Row]] = {
            tag.tag_id: [] for tag in setup.operator.side_outputs
        }

    def _read_inputs(self, setup: Setup) -> None:
        """Prepares the encoders of the inputs' rows.

        Raises:
            DeclarationError: the inputs do not fit a harness of this class.
        """
        raise NotImplementedError

    def _no_rows(self) -> Rows:
        """The rows of an empty micro-batch."""
        raise NotImplementedError

    @classmethod
    def restore(
        cls: type[H], snapshot: Snapshot, fn: Any, *, parallelism: int = 1, **changed: Any
    ) -> H:
        """A harness that continues from a snapshot, like a query that is started again.

        Args:
            snapshot: a snapshot of another harness.
            fn: the function, or the operator as for :meth:`of`; it may differ from the other
                harness's. A state that it does not declare is kept for a function that does.
            parallelism: the number of subtasks, the same or another.
            changed: other arguments of the harness, if they differ; a snapshot has neither an
                operator's arguments nor how calls of an async function overlap.

        Raises:
            CheckpointError: a state of the function has another kind or type in the snapshot, or
                states and timers have another key; or windows are open that the function can't go
                on with.
        """
        if isinstance(fn, SchemaRows):
            harness = cls.of(fn, parallelism=parallelism, **changed)
        elif snapshot.arguments is None:
            raise DeclarationError(
                f"the harness was made by {cls.__name__}.of(...): give restore() such an operator, "
                "not a function"
            )
        else:
            make: Any = cls  # each class has arguments of its own
            harness = make(fn, parallelism=parallelism, **{**snapshot.arguments, **changed})
        harness._clock = Clock(**snapshot.clock)
        held = Held(
            snapshot.states,
            snapshot.timers,
            snapshot.operator,
            snapshot.broadcast,
            snapshot.windows,
        )
        harness._job.restore(held, harness._clock)
        if snapshot.initial is not None:
            harness._initial = snapshot.initial
        return harness

    # -- life cycle ------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens the function in every subtask; otherwise a subtask does when it has work."""
        self._job.open()

    def close(self) -> None:
        """Closes the functions. Snapshots, states and `output` can still be read."""
        self._job.close()

    def __enter__(self: H) -> H:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
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
        """The times of a micro-batch with these arguments; ``None`` keeps the current time."""
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
        for each, mine in zip(self._setup.inputs, late):
            tag = each.late_output
            kept = None if tag is None else self._side_outputs.get(tag.tag_id)
            if kept is None:
                self._dropped += len(mine)
            else:
                kept += mine
        return results

    def _main(self, results: list[Row]) -> list[Row]:
        """Returns the rows of the main output; keeps those of side outputs."""
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

    # -- before it runs --------------------------------------------------------------------------

    def set_state(self, key: Any, name: str, value: Any, *, used_at: Any = None) -> None:
        """Sets a key's state before the first micro-batch, as if the function had written it.

        Args:
            key: the bare value for one key column, a tuple for several.
            name: the descriptor's name.
            value: the value in the form of :meth:`state`: for a list state a list, for a map state
                a dict.
            used_at: for a state with a time to live, when the value was last used, in ms; for a
                list or a map, a list with the times of its elements or entries. By default now.
        """
        for store in self._job.stores:
            if store.spec.name == name:
                store.put(self._job.keys.of_user(key), value, used_at)
                return
        raise DeclarationError(f"the function has no state '{name}'")

    def set_timer(
        self,
        key: Any,
        domain: TimeDomain,
        time: int,
        window: tuple[int, int] | None = None,
    ) -> None:
        """Sets a timer before the first micro-batch; it fires once its clock reaches its time.

        Args:
            key: the bare value for one key column, a tuple for several.
            domain: the clock.
            time: in ms since the epoch.
            window: for a function of windows the start and the end of the timer's window, in ms.
        """
        own = self._job.keys.of_user(key)
        of = () if window is None else (window[1], window[0])
        timer = Timer(time, self._job.keys.group(own), domain.value, own, of)
        self._job.timers.change(timer, True)

    # -- looking at it ---------------------------------------------------------------------------

    def output(self) -> list[Row]:
        """The rows emitted since the beginning, or since :meth:`take_output`."""
        return list(self._output)

    def take_output(self) -> list[Row]:
        """The rows emitted since the last call of this method, or since the beginning."""
        taken, self._output = self._output, []
        return taken

    def side_output(self, tag: OutputTag) -> list[Row]:
        """The rows emitted to a side output since the beginning."""
        if tag.tag_id not in self._side_outputs:
            raise DeclarationError(f"give the harness side_outputs with {tag!r}")
        return list(self._side_outputs[tag.tag_id])

    def state(self, key: Any, name: str) -> Any:
        """A copy of a key's stored state.

        Args:
            key: the bare value for one key column, a tuple for several.
            name: the descriptor's name.

        Returns:
            The value, or the accumulator; ``None`` if there is none. For a list state a list; for a
            map state a dict, in order if the map is sorted.
        """
        for store in self._job.stores:
            if store.spec.name == name:
                return store.peek(self._job.keys.of_user(key))
        raise DeclarationError(f"the function has no state '{name}'")

    def broadcast_state(self, name: str, subtask: int = 0) -> dict[Any, Any]:
        """A copy of a subtask's broadcast state."""
        entries = self._job.broadcast[subtask].peek(name)
        if entries is None:
            raise DeclarationError(f"the function has no broadcast state '{name}'")
        return entries

    def timers(self, key: Any) -> list[SetTimer]:
        """A key's timers that are set: domain and time in ms.

        Those of a function of windows have the start and the end of their window too.
        """
        wanted = self._job.keys.of_user(key)
        mine = [timer for timer in self._job.timers if timer.key == wanted]
        mine.sort(key=lambda timer: (timer.time, timer.domain, timer.window))
        return [timer.shown for timer in mine]

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
        return Snapshot(self._arguments, clock, *self._job.snapshot(), initial)
