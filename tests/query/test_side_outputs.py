"""Side outputs: rows that a function emits beside its main output."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    BroadcastProcessFunction,
    DeclarationError,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import PythonException
from pyspark.sql import functions as F

from tests.two_streams import TwoStreams

ODD = OutputTag("odd", "key long, n long")
BIG = OutputTag("big one", "long")
NOBODY = OutputTag("nobody", "string")


class Counts(KeyedProcessFunction):
    """Emits each count; odd counts and big values go to side outputs too."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        n = self.count.value() + 1
        self.count.update(n)
        yield row.key, n
        if n % 2:
            yield ODD, (row.key, n)
        if row.value > 100:
            yield BIG, row.value
        yield NOBODY, "nothing"


def counts(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Counts(), "key long, n long")


ROWS = [(1, 5), (1, 500), (2, 7), (1, 9)]
MAIN = [(1, 1), (1, 2), (1, 3), (2, 1)]


def tuples(df: Any) -> list[Any]:
    return sorted(tuple(row) for row in df.collect())


def test_a_batch(spark: Any) -> None:
    result = counts(spark.createDataFrame(ROWS, "key long, value long").coalesce(1))
    assert tuples(result) == MAIN
    assert tuples(result.side_output(ODD)) == [(1, 1), (1, 3), (2, 1)]
    assert tuples(result.get_side_output(BIG)) == [(500,)]
    assert tuples(result.side_output(OutputTag("unused", "x int"))) == []
    both = result.with_side_outputs(BIG, ODD)
    assert both.schema.simpleString() == (
        "struct<main:struct<key:bigint,n:bigint>,big one:struct<value:bigint>,"
        "odd:struct<key:bigint,n:bigint>>"
    )
    shown = [[tuple(part) if part else None for part in row] for row in both.collect()]
    assert shown[:3] == [[(1, 1), None, None], [None, None, (1, 1)], [(1, 2), None, None]]
    assert [None, (500,), None] in shown
    assert len(shown) == 8


def test_a_stream_writes_all_from_one_run(
    spark: Any, stream: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """Also after a restart, and where a function does not read its DataFrame."""
    settings(**{FORMAT_KEY: "2"})
    fed = stream("key long, value long")
    fed.feed(ROWS, [(2, 300)])
    source = spark.readStream.schema("key long, value long").option("maxFilesPerTrigger", 1)
    seen: dict[str, list[Any]] = {"main": [], "odd": [], "calls": []}

    def run(main: Any) -> list[int]:
        odd = {
            ODD: lambda df, batch: seen["odd"].extend((batch, *row) for row in tuples(df)),
            BIG: lambda df, batch: seen["calls"].append(batch),
        }
        writer = counts(source.parquet(str(fed._input))).write_outputs(main, odd)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [each for each in query.recentProgress if each.numInputRows > 0]
        return [each.stateOperators[0].numRowsUpdated for each in progress]

    updated = run(lambda df, batch: seen["main"].extend((batch, *row) for row in tuples(df)))
    assert updated == [2, 1]
    assert seen["main"] == [(0, *row) for row in MAIN] + [(1, 2, 2)]
    assert seen["odd"] == [(0, 1, 1), (0, 1, 3), (0, 2, 1)]
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([(2, 1)])
    assert run(None) == [1]
    assert seen["odd"][3:] == [(2, 2, 3)]
    assert seen["calls"] == [0, 1, 2]
    assert len(seen["main"]) == 5


def test_a_stream_writes_its_main_output_alone(
    stream: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """The second batch is not read, and is there for the third one all the same."""
    settings(**{"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"})
    fed = stream("key long, value long")
    fed.feed([(1, 5), (2, 7)], [(1, 500)], [(1, 9)])
    seen: list[Any] = []

    def write(df: Any, batch: int) -> None:
        if batch != 1:
            seen.extend(tuples(df))

    writer = counts(fed.source()).write_outputs(write)
    writer = writer.option("checkpointLocation", str(fed.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert seen == [(1, 1), (2, 1), (1, 3)]


class Windows(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield OutputTag("times", "irrelevant"), (row.time, row.key)


def test_a_watermark_goes_on_through_a_side_output(stream: Any) -> None:
    fed = stream("key long, time timestamp")

    def per_hour(df: Any) -> Any:
        times = OutputTag("times", "time timestamp, key long")
        events = df.withWatermark("time", "1 hour")
        side = keystate.keyed(events, "key").process(Windows(), "x int").side_output(times)
        return side.groupBy(F.window("time", "1 hour")).count().select("count")

    hour = [datetime.datetime(2024, 1, 1, h, tzinfo=datetime.timezone.utc) for h in (1, 1, 9)]
    fed.feed([(1, hour[0]), (2, hour[1])], [(1, hour[2])])
    assert [row[0] for row in fed.run(per_hour)] == [2]


class Route(BroadcastProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        known = ctx.get_broadcast_state(NAMES).get(row.id)
        return (row.id, known) if known else (OutputTag("unknown", "long"), row.id)

    def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(NAMES)[row.id] = row.name


NAMES = MapStateDescriptor("names", "long", "string")


def test_without_keys_and_with_broadcast(spark: Any) -> None:
    names = keystate.broadcast(spark.createDataFrame([(1, "one")], "id long, name string"), NAMES)
    result = keystate.stream(spark.range(3)).connect(names).process(Route(), "id long, name string")
    assert tuples(result) == [(1, "one")]
    assert tuples(result.side_output(OutputTag("unknown", "long"))) == [(0,), (2,)]
    flat = keystate.stream(spark.range(3)).flat_map(lambda row: (BIG, row.id), "id long")
    assert flat.count() == 0
    assert tuples(flat.side_output(BIG)) == [(0,), (1,), (2,)]


def test_errors(spark: Any) -> None:
    result = counts(spark.createDataFrame(ROWS, "key long, value long"))
    with pytest.raises(ValueError, match="a side output needs a name"):
        OutputTag("", "long")
    with pytest.raises(DeclarationError, match="expected an OutputTag, got 'odd'"):
        result.side_output("odd")
    with pytest.raises(DeclarationError, match="two outputs are named 'Main'"):
        result.side_output(OutputTag("Main", "long"))
    with pytest.raises(DeclarationError, match="two outputs are named 'ODD'"):
        result.with_side_outputs(ODD, OutputTag("ODD", "long"))
    with pytest.raises(DeclarationError, match="side output 'x': 'no type' is not a type"):
        result.side_output(OutputTag("x", "no type"))
    with pytest.raises(DeclarationError, match=r"write_outputs\(\) needs a stream"):
        result.write_outputs(None, {})
    with pytest.raises(PythonException, match=r"does not fit side output 'odd' struct<key:string>"):
        result.side_output(OutputTag("odd", "key string")).collect()


class TimedCounts(Counts):
    """Also emits to the late rows' own output."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield from super().process_element(row, ctx)
        if row.value == 0:
            yield LATE, (row.key, -1, None)


TIMED = "key long, value long, time timestamp"
LATE = OutputTag("late", TIMED)


def at(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def timed_counts(df: Any, **options: Any) -> Any:
    keyed = keystate.keyed(df.withWatermark("time", "10 seconds"), "key")
    return keyed.process(TimedCounts(), "key long, n long", **options)


TIMED_BATCHES = [
    [(1, 5, at(100)), (2, 6, at(95)), (1, 0, at(96))],
    [(1, 7, at(120))],
    # The watermark is 90 s, of the batch before the last.
    [(1, 8, at(90)), (3, 9, at(1)), (2, 10, at(91)), (1, 11, None)],
]


def test_late_rows_reach_a_side_output(stream: Callable[..., Any]) -> None:
    fed = stream(TIMED)
    fed.feed(*TIMED_BATCHES)
    late = fed.run(lambda df: timed_counts(df, late_output=LATE).side_output(LATE))
    expected = [(1, -1, None), (1, 8, at(90)), (3, 9, at(1))]
    utc = datetime.timezone.utc
    found = [(r.key, r.value, r.time and r.time.astimezone(utc)) for r in late]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert sum(p.stateOperators[0].numRowsDroppedByWatermark for p in fed.progress) == 0


def test_main_output_and_late_rows_of_one_run(stream: Callable[..., Any]) -> None:
    fed = stream(TIMED)
    fed.feed(*TIMED_BATCHES)
    both = fed.run(lambda df: timed_counts(df, late_output=LATE).with_side_outputs(ODD, LATE))
    assert sorted(r.late.value for r in both if r.late is not None) == [-1, 8, 9]
    main = sorted(tuple(r.main) for r in both if r.main is not None)
    assert main == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2)]


def test_many_late_rows(stream: Callable[..., Any]) -> None:
    """More than are kept in memory as they are."""
    fed = stream(TIMED)
    many = [(i % 50, i, at(1)) for i in range(20_000)]
    fed.feed([(1, 5, at(100))], [(1, 7, at(120))], [*many, (1, 8, at(125))])
    late = fed.run(lambda df: timed_counts(df, late_output=LATE).side_output(LATE))
    assert sorted(r.value for r in late) == list(range(20_000))


def test_late_rows_that_nobody_reads_are_counted(stream: Callable[..., Any]) -> None:
    fed = stream(TIMED)
    fed.feed(*TIMED_BATCHES)
    main = fed.run(lambda df: timed_counts(df, late_output=LATE))
    assert len(main) == 6
    assert sum(p.stateOperators[0].numRowsDroppedByWatermark for p in fed.progress) == 2


def test_what_late_output_can_be(spark: Any) -> None:
    df = spark.createDataFrame([], TIMED)
    with pytest.raises(DeclarationError, match="late_output is an OutputTag, got 'late'"):
        timed_counts(df, late_output="late")
    with pytest.raises(DeclarationError, match="late rows are struct<key:bigint,value:bigint,ti"):
        timed_counts(df, late_output=OutputTag("late", "key long"))
    assert timed_counts(df, late_output=LATE).side_output(LATE).collect() == []


class BothLate(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield row.key, row.value

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield row.key, -row.x


OTHER = "key long, x long, at timestamp"
LATE_TOO = OutputTag("late_too", OTHER)


def two_inputs(first: Any, second: Any, **options: Any) -> Any:
    connected = keystate.keyed(first.withWatermark("time", "0 seconds"), "key").connect(
        keystate.keyed(second.withWatermark("at", "0 seconds"), "key")
    )
    return connected.process(BothLate(), "key long, n long", **options)


@pytest.mark.parametrize("late_output", [(LATE, LATE_TOO), (LATE, None), (None, LATE_TOO)])
def test_late_rows_of_two_inputs(late_output: Any, stream: Callable[..., Any]) -> None:
    streams = TwoStreams(stream, TIMED, OTHER)
    streams.feed(
        ([(1, 1, at(100))], [(1, 1, at(100))]),
        ([(1, 2, at(200))], [(1, 2, at(200))]),
        ([(1, 3, at(50)), (1, 4, at(250))], [(3, 5, at(60)), (2, 6, at(260))]),
    )
    tags = [tag for tag in late_output if tag is not None]
    emitted = [
        row
        for batch in streams.run(
            lambda first, second: two_inputs(
                first, second, late_output=late_output
            ).with_side_outputs(*tags)
        )
        for row in batch
    ]
    main = sorted(row.main.n for row in emitted if row.main is not None)
    assert main == [-6, -2, -1, 1, 2, 4]
    if LATE in tags:
        assert [row.late.value for row in emitted if row.late is not None] == [3]
    if LATE_TOO in tags:
        assert [row.late_too.x for row in emitted if row.late_too is not None] == [5]
    dropped = sum(p.stateOperators[0].numRowsDroppedByWatermark for p in streams.progress)
    assert dropped == 2 - len(tags)


def test_late_rows_of_both_inputs_in_one_output(stream: Callable[..., Any]) -> None:
    streams = TwoStreams(stream, TIMED, TIMED)
    streams.feed(
        ([(1, 1, at(100))], [(1, 1, at(100))]),
        ([(1, 2, at(200))], [(1, 2, at(200))]),
        ([(1, 3, at(50))], [(3, 5, at(60))]),
    )

    def build(first: Any, second: Any) -> Any:
        keyed = [
            keystate.keyed(each.withWatermark("time", "0 seconds"), "key")
            for each in (first, second)
        ]
        out = keyed[0].connect(keyed[1]).process(Repeat(), TIMED, late_output=LATE)
        return out.side_output(LATE)

    assert sorted(row.value for batch in streams.run(build) for row in batch) == [3, 5]


class Repeat(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield row

    process_element2 = process_element1


def test_what_the_late_output_of_two_inputs_can_be(spark: Any) -> None:
    first, second = spark.createDataFrame([], TIMED), spark.createDataFrame([], OTHER)
    with pytest.raises(DeclarationError, match="late rows are struct<key:bigint,x:bigint"):
        two_inputs(first, second, late_output=LATE)
    with pytest.raises(DeclarationError, match="or a pair of the first"):
        two_inputs(first, second, late_output=(LATE,))
    with pytest.raises(DeclarationError, match="late_output is an OutputTag, got 'late'"):
        two_inputs(first, second, late_output="late")


def test_late_rows_of_a_stream_with_broadcast(spark: Any, stream: Callable[..., Any]) -> None:
    class Known(KeyedBroadcastProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> Any:
            return row.key, row.value

        def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
            return None

    names = spark.createDataFrame([(1, "one")], "id long, name string")
    fed = stream(TIMED)
    fed.feed(*TIMED_BATCHES)
    late = fed.run(
        lambda df: (
            keystate.keyed(df.withWatermark("time", "10 seconds"), "key")
            .connect(keystate.broadcast(names, NAMES))
            .process(Known(), "key long, n long", late_output=LATE)
            .side_output(LATE)
        )
    )
    assert sorted(row.value for row in late) == [8, 9]
