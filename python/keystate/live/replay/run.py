"""Runs the batches of a replay, and compares them with the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from keystate._jvm import bridge
from keystate._operators.definition import InputRole
from keystate._types.canonical import by_key, same
from keystate._types.codec import struct_codec
from keystate.checkpoints.history import KeyReader, value_of
from keystate.errors import CheckpointError
from keystate.functions import OutputTag
from keystate.functions.timers import set_timer_of
from keystate.live.replay.held import broadcast_states, take_up
from keystate.live.replay.recipe import Recipe
from keystate.live.replay.recorded import read_initial, read_inputs
from keystate.live.replay.steps import Difference, Replay, Step, Timers
from keystate.live.replay.target import in_harness, operator_of, streamed
from keystate.state.kinds import TIMERS
from keystate.testing._broadcast import Copy
from keystate.testing._clocks import noticing
from keystate.testing._job import Clock
from keystate.testing._rows import InputEncoder, Rows
from keystate.testing._steps import SteppingJob


class Target:
    """An operator of a query, and the checkpoint whose batches run again.

    Args:
        query: the operator's output, a DataFrame that a stream's method returned.
        checkpoint: the query's checkpoint location.
        batches: the micro-batches.
        number: the operator's number; ``None`` if there is one, or if it has a name.
        tags: the side outputs that are wanted.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_REPLAY]``: a batch ran in real-time mode, or the
            operator is of a kind that can't be replayed.
    """

    def __init__(
        self,
        query: Any,
        checkpoint: str,
        batches: list[int],
        number: int | None,
        tags: tuple[OutputTag, ...],
    ) -> None:
        self.operator = operator_of(query)
        self.session = self.operator.rows.df.sparkSession
        if not hasattr(self.session, "_jsparkSession"):
            raise CheckpointError(
                "replay() runs in the driver's process, which a client of Spark Connect is not.",
                code="KEYSTATE_CANNOT_REPLAY",
            )
        self.checkpoint = checkpoint
        self.batches = batches
        self.tags = tags
        if number is None and self.operator.name is not None:
            number = _number_of(checkpoint, self.operator.name, self.session)
        self.reader = KeyReader(self.session, checkpoint, number)
        self.clocks = {batch: self._clock(batch) for batch in batches}
        self.first = self.clocks[batches[0]]
        self.setup = in_harness(
            self.operator, tags, self.first["partitions"], self.reader.max_parallelism
        )

    @cached_property
    def broadcast(self) -> Copy:
        """The broadcast states before the first batch."""
        if self.operator.broadcast_input is None or self.batches[0] == 0:
            return {}
        return broadcast_states(
            self.session, self.checkpoint, self.reader.operator, self.batches[0]
        )

    def _clock(self, batch: int) -> dict[str, Any]:
        """The recorded clock of a batch."""
        found: dict[str, Any] = bridge.operation(
            self.session, "clock", self.checkpoint, self.reader.operator, batch
        )
        if found["real_time"]:
            raise CheckpointError(
                f"Batch {batch} ran in real-time mode: its timers, its times to live and what its "
                "function read as the processing time went by a live clock, which is not recorded.",
                code="KEYSTATE_CANNOT_REPLAY",
            )
        return found

    def input_of(self, batch: int, key: Sequence[Any] | None, most: int | None) -> list[pa.Array]:
        """The rows that each input had in a batch; with ``None`` as key, the rows of all keys.

        Broadcast elements are the last input, and so is initial state.
        """
        arrays = read_inputs(self.checkpoint, batch, streamed(self.operator), key, most)
        initial = self.operator.initial
        if initial is None:
            return arrays
        if self.clocks[batch]["takes_initial"]:
            return [*arrays, read_initial(initial, batch, key, most)]
        return [*arrays, struct_codec(initial.row_type).encode([])]

    def run(self, key: Any, inputs: Callable[[int], list[pa.Array]] | None = None) -> Replay:
        """Runs the batches for a key.

        Args:
            key: the key in the form that users give.
            inputs: returns a batch's rows of each input; by default they are read.
        """
        columns = self.reader.columns(key)
        values = list(columns.values()) if isinstance(columns, dict) else list(columns)
        return _Run(self, columns, values, inputs).run()


def _number_of(checkpoint: str, name: str, session: Any) -> int | None:
    found = bridge.operation(session, "inspect", checkpoint)
    numbers = [one["id"] for one in found["operators"] if one["keystate"] and one["name"] == name]
    return numbers[0] if len(numbers) == 1 else None


class _Run:
    """One key's batches."""

    def __init__(
        self,
        target: Target,
        key: Any,
        values: list[Any],
        inputs: Callable[[int], list[pa.Array]] | None,
    ) -> None:
        self._target = target
        self._operator = target.operator
        self._job = job = SteppingJob(target.setup)
        self._key = key
        self._values = values
        self._read = inputs or (lambda batch: target.input_of(batch, values, None))
        self._own = job.keys.of_user(values[0] if len(values) == 1 else tuple(values))
        self._inputs = [
            InputEncoder(each, "a row does not fit the input schema") for each in job.setup.inputs
        ]
        self._late = 0
        self._versions: dict[int, dict[str, Any]] = {}
        self._unrecorded: dict[str, str] = {}

    def run(self) -> Replay:
        batches, first = self._target.batches, self._target.first
        before = self._clock(batches[0] - 1, first, "watermark_before")
        self._versions = self._read_versions(batches[0], batches[-1] + 1)
        stored = self._stored(batches[0]) if batches[0] > 0 else None
        take_up(self._job, self._own, stored, self._target.broadcast, before)
        recipe = Recipe(self._operator, self._job.setup, self._values, stored, before)
        steps: list[Step] = []
        differences: list[Difference] = []
        committed = True
        try:
            for batch in batches:
                told = self._target.clocks[batch]
                clock = self._clock(batch, told, "watermark")
                mine = list(self._batch(batch, clock, before, recipe))
                steps += mine
                committed = told["committed"]
                if committed and not differences:
                    differences = self._compare(batch, mine)
                before = clock
        finally:
            self._job.close()
        bare = self._values[0] if len(self._values) == 1 else tuple(self._values)
        calls = list(self._unrecorded)
        return Replay(bare, batches, steps, differences, committed, self._late, calls, recipe)

    def _clock(self, batch: int, told: dict[str, Any], watermark: str) -> Clock:
        by_event_time = self._job.setup.by_event_time
        return Clock(batch, told[watermark] if by_event_time else None, told["began_at"])

    def _read_versions(self, first: int, until: int) -> dict[int, dict[str, Any]]:
        """The jar's answers for the key in each of these versions."""
        states: dict[str, Any] = {}
        timers: list[Any] = []
        versions = {}
        for found in self._target.reader.stored(self._key, first, until):
            states = {name: one for name, one in states.items() if name not in found["gone"]}
            states.update({one["state"]: one for one in found["states"]})
            timers = timers if found.get("timers") is None else found["timers"]
            versions[found["version"]] = {"states": list(states.values()), "timers": timers}
        return versions

    def _stored(self, version: int) -> dict[str, Any]:
        if version not in self._versions:
            raise CheckpointError(
                f"The state after batch {version - 1} is not kept any more in "
                f"{self._target.checkpoint}",
                code="KEYSTATE_NO_CHECKPOINT",
            )
        return self._versions[version]

    # -- one batch -------------------------------------------------------------------------------

    def _batch(self, batch: int, clock: Clock, before: Clock, recipe: Recipe) -> Iterator[Step]:
        given = self._read(batch)
        elements = given.pop() if self._operator.broadcast_input is not None else None
        arrays = [self._mine(i, array) for i, array in enumerate(given)]
        recipe.batches.append(
            (clock, [each.decode(rows) for each, rows in zip(self._inputs, arrays)])
        )
        rows, order = self._arranged(arrays, before.watermark)
        decoded = [each.decode(array) for each, array in zip(self._inputs, rows.arrays)]
        steps = self._job.steps(self._own, rows, len(order), clock, before, elements)
        for ran in noticing(steps, self._unrecorded):
            main, side = self._split(ran.results)
            places = [order[place] for place in ran.rows]
            found = [decoded[of][at] for of, at in places]
            yield Step(
                batch,
                places[0][0] if places else 0,
                found if self._job.takes_many and places else next(iter(found), None),
                None if ran.timer is None else ran.timer.shown,
                ran.before[0],
                ran.after[0],
                _timers(ran.before[1]),
                _timers(ran.after[1]),
                main,
                side,
            )

    def _mine(self, index: int, rows: pa.Array) -> pa.Array:
        """The rows of the key."""
        keys = self._job.keys.of_input(rows, index)
        places = [i for i, key in enumerate(keys) if key == self._own]
        return rows.take(pa.array(places, pa.int64()))

    def _arranged(
        self, arrays: list[pa.Array], watermark: int | None
    ) -> tuple[Rows, list[tuple[int, int]]]:
        """The rows that are not late, and in their order the input and the place of each."""
        if not self._job.takes_late_rows:
            split = [each.on_time(rows, watermark) for each, rows in zip(self._inputs, arrays)]
            self._late += sum(len(late) for _, late in split)
            arrays = [rows for rows, _ in split]
        arrays = [each.ordered(rows) for each, rows in zip(self._inputs, arrays)]
        order = [(i, at) for i, rows in enumerate(arrays) for at in range(len(rows))]
        second = self._operator.second_input
        if second is not None and second.role is InputRole.MERGED:
            times = [
                [keys[0] for keys in each.sort_keys(rows)]
                for each, rows in zip(self._inputs, arrays)
            ]
            order.sort(key=lambda place: times[place[0]][place[1]])
        if second is None or second.role is InputRole.BROADCAST:
            return Rows(arrays), order
        if second.role is InputRole.INITIAL:
            order.sort(key=lambda place: -place[0])  # it comes before all rows
        return Rows(arrays, order), order

    def _split(self, results: list[Row]) -> tuple[list[Row], dict[str, list[Row]]]:
        """The rows of the main output, and the rows of each side output."""
        tags = self._target.tags
        if not tags:
            return results, {}
        main = [row[0] for row in results if row[0] is not None]
        side = {
            tag.tag_id: [row[i] for row in results if row[i] is not None]
            for i, tag in enumerate(tags, 1)
        }
        return main, side

    # -- compared with the checkpoint ------------------------------------------------------------

    def _compare(self, batch: int, steps: list[Step]) -> list[Difference]:
        found = self._stored(batch + 1)
        stored = {one["state"]: value_of(one) for one in found["states"]}
        replayed, set_timers = self._job.content(self._own)
        differences = []
        for store in self._job.stores:
            name = store.spec.name
            was, now = stored.get(name), replayed.get(name)
            if not same(was, now):
                differences.append(Difference(batch, name, was, now, _first(steps, name, was, now)))
        timers = _timers(found["timers"])
        if timers != _timers(set_timers):
            step = next((one for one in steps if one.timers_before != one.timers_after), None)
            differences.append(Difference(batch, TIMERS, timers, _timers(set_timers), step))
        return differences


def _first(steps: list[Step], name: str, stored: Any, replayed: Any) -> Step | None:
    """The step to look at for a difference.

    It is the last step that changed the state away from its stored value, or else the first step
    that changed a part that differs from its stored value.
    """
    part = _differing(stored, replayed)

    def of(held: dict[str, Any]) -> Any:
        return part(held.get(name))

    changed = [one for one in steps if not same(of(one.before), of(one.after))]
    left = [one for one in changed if same(of(one.before), part(stored))]
    return next(iter(left[-1:] or changed), None)


def _differing(stored: Any, replayed: Any) -> Callable[[Any], Any]:
    """Selects a value's differing part: entries of a map, or a list's rest from an element on."""
    if isinstance(stored, dict) and isinstance(replayed, dict):
        absent = (None, object())
        was, now = by_key(stored), by_key(replayed)
        keys = [
            key
            for key in {**was, **now}
            if not same(was.get(key, absent)[1], now.get(key, absent)[1])
        ]
        return lambda value: [by_key(value or {}).get(key, absent)[1] for key in keys]
    if isinstance(stored, list) and isinstance(replayed, list):
        alike = 0
        for one, other in zip(stored, replayed):
            if not same(one, other):
                break
            alike += 1
        return lambda value: (value or [])[alike:]
    return lambda value: value


def _timers(timers: Iterable[Sequence[int]]) -> Timers:
    return [set_timer_of(*timer) for timer in timers]
