"""Operator state: kept with the checkpoint, dealt out anew when the parallelism changes."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointedFunction,
    CheckpointListener,
    DeclarationError,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    SinkFunction,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

from tests.drawn import drawn
from tests.shapes import SHAPES, Shape, shape_name

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture(params=drawn("operator state", ["1", "2"], 1))
def checkpoint_format(request: Any, settings: Callable[..., None]) -> None:
    settings(**{FORMAT_KEY: request.param})


class Buffer(ProcessFunction, CheckpointedFunction):
    """Keeps rows back until it has `size` of them, as the seeds' sink does."""

    def __init__(self, size: int) -> None:
        self.size = size

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.kept = store.get_list_state(ListStateDescriptor("kept", "long"))
        self.seen = store.get_union_list_state(ListStateDescriptor("seen", "subtask int, n long"))
        self.buffer = list(self.kept.get())
        self.restored = context.is_restored()
        self.all_seen = sum(row.n for row in self.seen.get())
        self.n = 0

    def open(self, ctx: Any) -> None:
        self.subtask = ctx.get_index_of_this_subtask()

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n += 1
        self.buffer.append(row.x)
        if len(self.buffer) >= self.size:
            for x in self.buffer:
                yield x, self.subtask, self.restored, self.all_seen
            self.buffer = []

    def snapshot_state(self, context: Any) -> None:
        assert context.get_checkpoint_timestamp() > 0
        self.kept.update(self.buffer)
        self.seen.update([(self.subtask, self.n)])


def buffered(size: int) -> Callable[[Any], Any]:
    schema = "x long, subtask int, restored boolean, seen long"
    return lambda df: keystate.stream(df).process(Buffer(size), schema)


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_kept_over_batches_restarts_and_rescales(
    stream: Any, settings: Any, checkpoint_format: None, shape: Shape
) -> None:
    """No element is lost or doubled, however many subtasks there are."""
    fed = stream("x long")
    fed_rows = 0
    for partitions in (1, 3, 1, 4, 3, 2, 5, 5):
        settings(**{PARTITIONS: str(partitions)})
        for _ in range(2):
            fed.feed([(x,) for x in range(fed_rows, fed_rows + 7)])
            fed_rows += 7
        rows = fed.run(lambda df: shape(df, buffered(1_000_000)(df)))
        assert rows == []
    fed.feed([(fed_rows,)])
    out = fed.run(lambda df: shape(df, buffered(1)(df)))
    # A subtask empties its buffer at its first row; the others still have theirs.
    for first in range(1, 31, 10):
        fed.feed([(fed_rows + x,) for x in range(first, first + 10)])
    out += fed.run(lambda df: shape(df, buffered(1)(df)))
    emitted = Counter(row.x for row in out)
    assert set(emitted.values()) == {1}
    assert set(emitted) == set(range(fed_rows + 31))
    assert all(row.restored for row in out)


def test_union_state(stream: Any, settings: Any, checkpoint_format: None) -> None:
    """Every subtask is restored with what all of them had."""
    fed = stream("x long")
    fed.feed([(x,) for x in range(20)])
    assert {row.seen for row in fed.run(buffered(1))} == {0}
    fed.feed([(x,) for x in range(20)])
    assert {row.seen for row in fed.run(buffered(1))} == {20}
    settings(**{PARTITIONS: "5"})
    fed.feed([(x,) for x in range(30)])
    out = fed.run(buffered(1))
    assert {row.seen for row in out} == {20}
    assert len({row.subtask for row in out}) == 5
    settings(**{PARTITIONS: "3"})
    fed.feed([(x,) for x in range(30)])
    assert {row.seen for row in fed.run(buffered(1))} == {30}


class Unions(ProcessFunction, CheckpointedFunction):
    """A release that asks for these union lists, and tells what each subtask began with."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.lists = [
            store.get_union_list_state(ListStateDescriptor(name, "int")) for name in self.names
        ]
        self.restored = [list(each.get()) for each in self.lists]

    def open(self, ctx: Any) -> None:
        self.subtask = ctx.get_index_of_this_subtask()

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield self.subtask, self.restored

    def snapshot_state(self, context: Any) -> None:
        for each in self.lists:
            each.update([self.subtask])


@pytest.mark.parametrize("others", [[], ["v"]])
def test_a_union_list_that_releases_do_not_ask_for(
    stream: Any, settings: Any, others: list[str]
) -> None:
    """It is kept once, whatever else they ask for, and is everybody's when it is asked for."""
    fed = stream("x long")

    def began(names: list[str], partitions: int) -> list[Any]:
        settings(**{PARTITIONS: str(partitions)})
        fed.feed([(x,) for x in range(50)])
        schema = "subtask int, restored array<array<int>>"
        rows = fed.run(lambda df: keystate.stream(df).process(Unions(names), schema))
        of_subtasks = {row.subtask: row.restored for row in rows}
        return [of_subtasks[subtask] for subtask in range(partitions)]

    assert began(["u"], 2) == [[[]]] * 2
    for partitions in (2, 3):
        began(others, partitions)
    assert began(["u"], 3) == [[[0, 1]]] * 3


class Takes(ProcessFunction, CheckpointedFunction, CheckpointListener):
    """Notes each row in lists of both kinds and in a raw stream, and fails once when asked to.

    Of the union list the subtasks share the elements by their numbers, or the first takes all.
    """

    def __init__(self, folder: str, shared: bool) -> None:
        self.folder = Path(folder)
        self.shared = shared

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("split", "long"))
        self.union = store.get_union_list_state(ListStateDescriptor("union", "long"))
        self.of_all = list(self.union.get())
        self.raw = [
            pickle.load(each.get_stream()) for each in context.get_raw_operator_state_inputs()
        ]

    def open(self, ctx: Any) -> None:
        self.subtask, of = ctx.get_index_of_this_subtask(), ctx.get_number_of_parallel_subtasks()
        taken = list(self.of_all) if self.subtask == 0 else []
        self.own = [x for x in self.of_all if x % of == self.subtask] if self.shared else taken

    def process_element(self, row: Any, ctx: Any) -> Any:
        flag = self.folder / "fail"
        if row.x == 57 and flag.exists():
            flag.unlink()
            raise ValueError("once")
        self.own.append(row.x)
        self.split.add(row.x)
        self.raw.append(row.x)
        yield row.x, len(self.of_all)

    def snapshot_state(self, context: Any) -> None:
        self.union.update(self.own)
        for x in self.raw:
            output = context.get_raw_operator_state_output()
            output.start_new_partition()
            pickle.dump(x, output)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        with (self.folder / f"told{self.subtask}").open("a") as log:
            log.write(f"{checkpoint_id} ")


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_each_row_is_in_the_lists_once(
    spark: Any, stream: Any, settings: Any, tmp_path: Path, fails: bool, shared: bool, shape: Shape
) -> None:
    """With more subtasks than cores, whose tasks come to another worker each time."""
    fed = stream("x long")
    rows = 0

    def run(partitions: int, batches: int) -> None:
        nonlocal rows
        settings(**{PARTITIONS: str(partitions)})
        before = rows
        for _ in range(batches):
            fed.feed([(x,) for x in range(rows, rows + 10)])
            rows += 10

        def build(df: Any) -> Any:
            took = keystate.stream(df).process(Takes(str(tmp_path), shared), "x long, n long")
            return shape(df, took)

        # Each row finds what all subtasks had when its micro-batch began.
        assert sorted(map(tuple, fed.run(build))) == [
            (x, x // 10 * 10) for x in range(before, rows)
        ]
        for state in ("split", "union"):
            kept = admin.read_state(spark, str(fed.checkpoint), state=state)
            assert sorted(row.list_element for row in kept.collect()) == list(range(rows))

    if fails:
        (tmp_path / "fail").touch()
    run(5, 10)
    assert not (tmp_path / "fail").exists()
    if not fails:
        for subtask in range(5):
            assert (tmp_path / f"told{subtask}").read_text().split() == list(map(str, range(9)))
    run(3, 3)


class Tally(KeyedProcessFunction, ListCheckpointed[Any], CheckpointListener):
    """Keyed, with a list of its own, told of checkpoints, and failing when asked to."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.subtask = ctx.get_index_of_this_subtask()
        self.total = getattr(self, "total", 0)

    def restore_state(self, state: list[Any]) -> None:
        self.total = sum(part["total"] for part in state)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        self.total += row.x
        flag = self.folder / "fail"
        if row.x == 13 and flag.exists():
            flag.unlink()
            raise ValueError("once")
        yield row.x, self.count.value(), self.total

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        self.note(f"snapshot {checkpoint_id}")
        return [{"total": self.total}]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.note(f"complete {checkpoint_id}")

    def note(self, text: str) -> None:
        with (self.folder / f"log{self.subtask}").open("a") as log:
            log.write(text + "\n")


def test_an_attempt_that_fails_leaves_no_trace(
    stream: Any, settings: Any, tmp_path: Path, checkpoint_format: None
) -> None:
    settings(**{PARTITIONS: "1"})
    (tmp_path / "fail").touch()
    fed = stream("x long")
    fed.feed([(1,), (2,)], [(13,), (4,)], [(5,)])
    schema = "x long, n long, total long"

    def tally(df: Any) -> Any:
        return keystate.keyed(df, "x").process(Tally(str(tmp_path)), schema)

    totals = {row.x: row.total for row in fed.run(tally)}
    assert not (tmp_path / "fail").exists(), "it did not fail"
    assert max(totals.values()) == 25
    assert totals[5] == 25
    log = (tmp_path / "log0").read_text().split("\n")
    completed = [line for line in log if line.startswith("complete")]
    # The instance of batch 0 was in use until the failure; a new one took over batch 1.
    assert completed == ["complete 0", "complete 1"] or completed == ["complete 1"]
    assert [line for line in log if line.startswith("snap")] == [
        "snapshot 0",
        "snapshot 1",
        "snapshot 2",
    ]
    fed.feed([(6,)])
    assert [row.total for row in fed.run(tally)] == [31]


class Collects(SinkFunction):
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def open(self, ctx: Any) -> None:
        self.file = self.folder / f"{ctx.get_index_of_this_subtask()}"

    def invoke(self, value: Any, context: Any) -> None:
        with self.file.open("a") as file:
            file.write(f"{value.x}\n")


@pytest.mark.parametrize("keyed", [True, False])
def test_sinks(spark: Any, stream: Any, tmp_path: Path, keyed: bool) -> None:
    fed = stream("x long")
    fed.feed([(x,) for x in range(10)], [(x,) for x in range(10, 20)])
    source = spark.readStream.schema("x long").parquet(str(fed._input))
    rows = keystate.keyed(source, "x") if keyed else keystate.stream(source)
    out = tmp_path / "out"
    out.mkdir()
    writer = rows.add_sink(Collects(str(out)))
    location = writer.option("checkpointLocation", str(fed.checkpoint))
    location.trigger(availableNow=True).start().awaitTermination()
    written = [int(line) for path in out.iterdir() for line in path.read_text().split()]
    assert sorted(written) == list(range(20))
    assert len(list(out.iterdir())) == 2


def test_plain_functions(spark: Any) -> None:
    df = spark.range(0, 100, 1, 3)
    rows = keystate.stream(df)
    assert rows.map(lambda row: row.id * 2, "long").count() == 100
    assert rows.filter(lambda row: row.id < 10).count() == 10
    assert rows.flat_map(lambda row: [row.id] * 2, "id long").count() == 200
    assert rows.process(lambda row, ctx: [(row.id,)], "id long").distinct().count() == 100


class Misdeclared(ProcessFunction, CheckpointedFunction):
    def __init__(self, what: str) -> None:
        self.what = what

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("s", "long"))
        if self.what == "twice":
            store.get_list_state(ListStateDescriptor("s", "long"))
        if self.what == "init":
            raise ValueError("mine")
        if self.what == "keyed":
            context.get_keyed_state_store().get_state(ValueStateDescriptor("v", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if self.what == "key":
            ctx.get_current_key()
        return []

    def snapshot_state(self, context: Any) -> None:
        if self.what == "snapshot":
            raise ValueError("mine")
        self.state.update(["x" if self.what == "type" else 1])


@pytest.mark.parametrize(
    "what, message",
    [
        ("twice", "two states are named 's'"),
        ("init", r"initialize_state\(\) failed on the driver.*mine"),
        ("keyed", "state 'v' needs a key"),
    ],
)
def test_declarations(spark: Any, what: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        keystate.stream(spark.range(3)).process(Misdeclared(what), "id long")


@pytest.mark.parametrize(
    "what, message",
    [
        ("snapshot", r"FunctionError: \[KEYSTATE_FUNCTION_FAILED\] ValueError: mine"),
        ("type", "state 's': expected bigint, got str 'x'"),
        ("key", "the stream is not keyed"),
    ],
)
def test_failures(stream: Any, what: str, message: str) -> None:
    fed = stream("x long")
    fed.feed([(1,)])
    with pytest.raises(StreamingQueryException, match=message):
        fed.run(lambda df: keystate.stream(df).process(Misdeclared(what), "id long"))


class Counted(ProcessFunction, CheckpointedFunction):
    """Counts the micro-batches in a map that all subtasks have, and tells what it begins with."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.map = store.get_broadcast_state(
            MapStateDescriptor("map", "string", "n double, t date")
        )
        self.restored = context.is_restored()
        if not self.restored:
            self.map.put("batches", (0, None))

    def open(self, ctx: Any) -> None:
        self.subtask = ctx.get_index_of_this_subtask()

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield self.subtask, self.restored, self.map["batches"].n, sorted(self.map)

    def snapshot_state(self, context: Any) -> None:
        count = self.map["batches"].n
        self.map["batches"] = (int(count) + 1, None)
        self.map[f"batch {count}"] = (count, None)
        self.map.remove(f"batch {count - 1}")


COUNTED = "subtask int, restored boolean, n double, names array<string>"


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_a_map_that_every_subtask_has(
    stream: Any, settings: Any, checkpoint_format: None, shape: Shape
) -> None:
    def counted(df: Any) -> Any:
        return shape(df, keystate.stream(df).process(Counted(), COUNTED))

    fed = stream("x long")
    batches = 0
    for partitions in (2, 5, 5, 1, 3):
        settings(**{PARTITIONS: str(partitions)})
        fed.feed([(x,) for x in range(50)], [(x,) for x in range(50)])
        found = {(row.subtask, row.restored, row.n, tuple(row.names)) for row in fed.run(counted)}
        expected = set()
        for batch in (batches, batches + 1):
            names = ("batch " + str(batch - 1.0), "batches")[0 if batch else 1 :]
            expected |= {(i, float(batch), names) for i in range(partitions)}
        assert {(subtask, n, names) for subtask, _, n, names in found} == expected
        # In the second batch Spark may give a subtask to another worker, which restores it too.
        assert {restored for _, restored, n, _ in found if n == batches} == {batches > 0}
        batches += 2


@pytest.mark.parametrize(
    ("get", "message"),
    [
        (lambda s: s.get_broadcast_state(ListStateDescriptor("l", "long")), "MapStateDescriptor"),
        (lambda s: s.get_list_state(MapStateDescriptor("m", "int", "int")), "ListStateDescriptor"),
        (
            lambda s: s.get_broadcast_state(MapStateDescriptor("m", "map<int, int>", "int")),
            "a map has no order",
        ),
    ],
)
def test_operator_states_are_got_by_their_descriptors(
    spark: Any, get: Callable[[Any], Any], message: str
) -> None:
    class Gets(ProcessFunction, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None:
            get(context.get_operator_state_store())

        def process_element(self, row: Any, ctx: Any) -> Any:
            pass

        def snapshot_state(self, context: Any) -> None:
            pass

    with pytest.raises(DeclarationError, match=message):
        keystate.stream(spark.range(1)).process(Gets(), "x long").collect()
