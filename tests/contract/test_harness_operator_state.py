"""The harness and operator state: snapshots, restarts, raw streams, failures."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from keystate import (
    CheckpointedFunction,
    CheckpointError,
    CheckpointListener,
    FunctionError,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    SinkFunction,
    StateTypeError,
)
from keystate.testing import KeyedProcessHarness

SCHEMA = "subtask int, kept array<long>, seen long, raw array<long>"


class Keeps(KeyedProcessFunction, CheckpointedFunction, CheckpointListener):
    """Keeps all numbers in a list, in raw streams, and how many there are in a union list."""

    complete: list[int]

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.kept = store.get_list_state(ListStateDescriptor("kept", "long"))
        self.counts = store.get_union_list_state(ListStateDescriptor("counts", "long"))
        self.buffer = list(self.kept.get())
        self.seen = sum(self.counts.get())
        self.restored = context.is_restored()
        streams = context.get_raw_operator_state_inputs()
        self.raw = [int(each.get_stream().read()) for each in streams]
        self.groups = {
            each.get_key_group_id(): pickle.load(each.get_stream())
            for each in context.get_raw_keyed_state_inputs()
        }
        self.complete = []

    def open(self, ctx: Any) -> None:
        self.place = ctx.get_index_of_this_subtask()
        self.group_of = ctx.get_key_group

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.number < 0:
            raise ValueError("negative")
        yield self.place, list(self.buffer), self.seen, list(self.raw)
        self.buffer.append(row.number)
        self.raw.append(row.number)
        self.groups.setdefault(self.group_of(row.number), []).append(row.number)

    def snapshot_state(self, context: Any) -> None:
        self.kept.update(self.buffer)
        self.counts.update([len(self.buffer)])
        output = context.get_raw_operator_state_output()
        for number in self.raw:
            output.start_new_partition()
            output.write(str(number).encode())
        keyed = context.get_raw_keyed_operator_state_output()
        for group, numbers in self.groups.items():
            keyed.start_new_key_group(group)
            pickle.dump(numbers, keyed)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.complete.append(checkpoint_id)


def keeps(parallelism: int) -> KeyedProcessHarness:
    return KeyedProcessHarness(Keeps(), "number long", "number", SCHEMA, parallelism=parallelism)


@pytest.mark.parametrize("before, after", [(1, 3), (3, 1), (4, 3), (2, 5), (3, 3)])
def test_a_restart_deals_out_what_there_is(before: int, after: int) -> None:
    with keeps(before) as harness:
        for first in (0, 30):
            harness.process_batch(range(first, first + 30))
        snapshot = pickle.dumps(harness.snapshot())
    with KeyedProcessHarness.restore(pickle.loads(snapshot), Keeps(), parallelism=after) as harness:
        rows = harness.process_batch(range(100, 160))
        first_of = {row.subtask: row for row in reversed(rows)}
        assert set(first_of) == set(range(after))
        for column in ("kept", "raw"):
            parts = [getattr(first_of[i], column) for i in range(after)]
            assert sorted(x for part in parts for x in part) == list(range(60))
            if before != after:
                assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert {row.seen for row in rows} == {60}
        streams = harness.snapshot().operator["raw"]
        numbers = [n for stream in streams.values() for n in pickle.loads(stream)]
        assert sorted(numbers) == [*range(60), *range(100, 160)]


def test_a_failed_batch_leaves_no_trace_in_any_subtask() -> None:
    with keeps(3) as harness:
        harness.process_batch(range(30))
        with pytest.raises(FunctionError, match="negative"):
            harness.process_batch([*range(30, 60), -1])
        rows = harness.process_batch(range(60, 90))
        first_of = {row.subtask: row for row in reversed(rows)}
        assert sorted(x for row in first_of.values() for x in row.kept) == list(range(30))


class Lists(KeyedProcessFunction, ListCheckpointed[Any]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield len(self.seen)
        self.seen.append({"number": row.number})

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return self.seen

    def restore_state(self, state: list[Any]) -> None:
        self.seen = state


def test_list_checkpointed() -> None:
    with KeyedProcessHarness(Lists(), "number long", "number", "n long") as harness:
        assert [row.n for row in harness.process_batch([1, 2, 3])] == [0, 1, 2]
        snapshot = harness.snapshot()
    with KeyedProcessHarness.restore(snapshot, Lists(), parallelism=3) as harness:
        assert [row.n for row in harness.process(7)] == [1]


class Number:
    def __init__(self, value: int) -> None:
        self.value = value


class Objects(Lists):
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [Number(each["number"]) for each in self.seen]

    def restore_state(self, state: list[Any]) -> None:
        self.seen = [{"number": each.value} for each in state]


def test_list_of_objects() -> None:
    name = f"{__name__}.Number"
    with (
        KeyedProcessHarness(Objects(), "number long", "number", "n long") as harness,
        pytest.raises(StateTypeError, match=rf"\$list.*{name}.*spark\.keystate\.pickle\.allow"),
    ):
        harness.process(1)
    columns = ("number long", "number", "n long")
    with KeyedProcessHarness(Objects(), *columns, pickle_allow=[name]) as harness:
        harness.process_batch([1, 2])
        snapshot = harness.snapshot()
    with KeyedProcessHarness.restore(snapshot, Objects()) as harness:
        assert [row.n for row in harness.process(7)] == [2]
    with pytest.raises(CheckpointError, match=rf"\$list.*{name}.*spark\.keystate\.pickle\.allow"):
        KeyedProcessHarness.restore(snapshot, Objects(), pickle_allow=()).process(7)


class Sink(SinkFunction, CheckpointedFunction):
    """The seeds' sink: keeps rows back; here it hands them to a list of the test's."""

    written: list[Any] = []  # noqa: RUF012 - of the class: the harness runs a copy of the object

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("buffered", "long"))
        self.buffer = list(self.state.get())

    def invoke(self, value: Any, context: Any) -> None:
        self.buffer.append(value.number)
        if len(self.buffer) >= 4:
            type(self).written += self.buffer
            self.buffer = []

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.buffer)


class Plain(ProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.number


def test_without_keys() -> None:
    Sink.written.clear()
    with KeyedProcessHarness(Sink(), "number long", (), "nothing boolean") as harness:
        harness.process_batch([1, 2, 3])
        assert Sink.written == []
        snapshot = harness.snapshot()
    with KeyedProcessHarness.restore(snapshot, Sink()) as harness:
        assert harness.process(4) == []
        assert Sink.written == [1, 2, 3, 4]
    harness = KeyedProcessHarness(Plain(), "number long", (), "n long", parallelism=4)
    with harness:
        assert sorted(row.n for row in harness.process_batch(range(40))) == list(range(40))


class Shares(KeyedProcessFunction, CheckpointedFunction):
    """Has a map that is the same in all subtasks."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.map = store.get_broadcast_state(MapStateDescriptor("map", "float", "array<double>"))
        if not context.is_restored():
            self.map.put_all({0.1: (1, 2), 1: []})

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.map.put(row.key, [row.key])
        with pytest.raises(StateTypeError, match=r"state 'map', key 1\.0: expected array<double>"):
            self.map.put(1, "x")
        with pytest.raises(StateTypeError, match="the key None"):
            self.map.put(None, [])
        yield repr(sorted(self.map.items()))

    def snapshot_state(self, context: Any) -> None:
        pass


def test_a_map_that_every_subtask_has() -> None:
    first = {0.10000000149011612: [1.0, 2.0], 1.0: []}
    harness = KeyedProcessHarness(Shares(), "key int", "key", "map string", parallelism=3)
    for key in range(12):
        harness.process((key,))
    keys = {subtask: {float(k) for k in range(12) if harness.subtask_of(k) == subtask}
            for subtask in range(3)}  # fmt: skip
    snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
    harness.close()
    # What they put there differed, which they must not: the first subtask's is what all get.
    assert keys[0] and keys[1]
    for parallelism in (1, 3, 5):
        restored = KeyedProcessHarness.restore(snapshot, Shares(), parallelism=parallelism)
        (row,) = restored.process((7,))
        assert row.map == repr(sorted({**first, **{k: [k] for k in keys[0]}, 7.0: [7.0]}.items()))
        restored.close()


class KeepsTheLast(ProcessFunction, CheckpointedFunction):
    """Keeps two numbers. The list is read and cleared only while its new elements are added."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.kept = store.get_list_state(ListStateDescriptor("kept", "long"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.kept.add(value.number)
        self.kept.add_all(self.last())
        yield sum(self.kept.get())

    def last(self) -> Any:
        numbers = list(self.kept.get())
        self.kept.clear()
        yield from numbers[-2:]

    def snapshot_state(self, context: Any) -> None:
        pass


def test_a_generator_changes_the_list_that_it_is_added_to() -> None:
    harness = KeyedProcessHarness(KeepsTheLast(), "number long", [], "total long")
    assert [row.total for row in harness.process_batch([(1,), (2,), (4,), (8,)])] == [1, 3, 6, 12]


class Other(ProcessFunction, ListCheckpointed[Any]):
    """A release between two others, which has one list, without a name."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        return []

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return ["other"]

    def restore_state(self, state: list[Any]) -> None:
        assert state in ([], ["other"])


class Buffers(ProcessFunction, CheckpointedFunction):
    """Keeps numbers in a list, and in a raw stream each."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.buffered = store.get_list_state(ListStateDescriptor("buffered", "long"))
        self.raw = [r.get_stream().read() for r in context.get_raw_operator_state_inputs()]

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield list(self.buffered.get()), [int(raw) for raw in self.raw]
        self.buffered.add(row.number)
        self.raw.append(str(row.number).encode())

    def snapshot_state(self, context: Any) -> None:
        for raw in self.raw:
            context.get_raw_operator_state_output().start_new_partition()
            context.get_raw_operator_state_output().write(raw)


def test_a_list_without_a_name_leaves_the_others_as_they_are() -> None:
    schema = "buffered array<long>, raw array<long>"
    with KeyedProcessHarness(Buffers(), "number long", (), schema) as harness:
        harness.process_batch([1, 2])
        snapshot = harness.snapshot()
    for _ in range(2):
        with KeyedProcessHarness.restore(snapshot, Other()) as harness:
            harness.process_batch([3])
            snapshot = harness.snapshot()
    with KeyedProcessHarness.restore(snapshot, Buffers()) as harness:
        assert harness.process(4) == [([1, 2], [1, 2])]


class Releases(ProcessFunction, CheckpointedFunction):
    """A release of a function. It asks for some union lists, and maybe for a map."""

    def __init__(self, lists: list[str], has_map: bool = False) -> None:
        self.names = lists
        self.has_map = has_map

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        lists = {n: store.get_union_list_state(ListStateDescriptor(n, "int")) for n in self.names}
        self.lists = lists
        self.restored = {name: list(of_name.get()) for name, of_name in lists.items()}
        if self.has_map:
            self.map = store.get_broadcast_state(MapStateDescriptor("map", "int", "int"))
            self.restored["map"] = list(self.map)
            self.map.put(7, 7)

    def open(self, ctx: Any) -> None:
        self.subtask = ctx.get_index_of_this_subtask()

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield self.subtask, self.restored

    def snapshot_state(self, context: Any) -> None:
        for of_name in self.lists.values():
            of_name.update([self.subtask])


def released(snapshot: Any, parallelism: int, *release: Any) -> tuple[Any, list[Any]]:
    """What there is after a run of a release, and what each subtask began with."""
    fn, schema = Releases(*release), "subtask int, restored map<string, array<int>>"
    with (
        KeyedProcessHarness(fn, "number long", (), schema, parallelism=parallelism)
        if snapshot is None
        else KeyedProcessHarness.restore(snapshot, fn, parallelism=parallelism)
    ) as harness:
        began = {row.subtask: row.restored for row in harness.process_batch(range(50))}
        assert set(began) == set(range(parallelism))
        return harness.snapshot(), [began[subtask] for subtask in range(parallelism)]


@pytest.mark.parametrize("others", [[], ["v"]])
@pytest.mark.parametrize("parallelism", [(2, 2, 3, 3), (3, 2, 4, 3)])
def test_states_that_a_release_does_not_ask_for(
    others: list[str], parallelism: tuple[int, ...]
) -> None:
    """They are kept once, whatever else it asks for, and are still everybody's."""
    first, *between, last = parallelism
    snapshot, began = released(None, first, ["u", "w"], True)
    assert began == [{"u": [], "w": [], "map": []}] * first
    for subtasks in between:
        snapshot, _ = released(snapshot, subtasks, others)
    ids = list(range(first))
    snapshot, began = released(snapshot, last, ["u"])
    assert began == [{"u": ids}] * last
    _, began = released(snapshot, 2, ["u", "w"], True)
    assert began == [{"u": list(range(last)), "w": ids, "map": [7]}] * 2
