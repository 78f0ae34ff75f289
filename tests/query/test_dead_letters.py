"""Dead letters in queries: what fails is undone, written once, and comes again corrected."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    DeclarationError,
    FileSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    SortedMapStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import functions as F

SCHEMA = "key long, value long, at timestamp"
DEAD = OutputTag("dead", keystate.dead_letter_schema(SCHEMA))
AS_JSON = OutputTag("dead", keystate.dead_letter_schema())
OUTPUT = "key long, n long, kept string"


class Keeps(KeyedProcessFunction):
    """Changes everything, and then fails on negative values."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", "long", default=0))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "long"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "long", "string"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n.update(self.n.value() + 1)
        self.list.add(row.value)
        self.map.put(abs(row.value) % 5, str(row.value))
        self.map.remove(abs(row.value) % 7)
        self.sorted.put(row.value, row.value)
        if len(list(self.sorted.keys())) > 3:
            self.sorted.pop_first()
        kept = [self.list.get(), dict(self.map.items()), list(self.sorted.keys())]
        yield row.key, self.n.value(), json.dumps(kept, sort_keys=True)
        if row.value < 0:
            raise ValueError(f"{row.value} is negative")


def expected(rows: list[tuple[int, int]]) -> list[tuple[Any, ...]]:
    """What is emitted for rows none of which fails."""
    emitted = []
    state: dict[int, Any] = defaultdict(lambda: ([], {}, set()))
    for key, value in rows:
        numbers, words, order = state[key]
        numbers.append(value)
        words[value % 5] = str(value)
        words.pop(value % 7, None)
        order.add(value)
        if len(order) > 3:
            order.remove(min(order))
        kept = json.dumps([numbers, words, sorted(order)], sort_keys=True)
        emitted.append((key, len(numbers), kept))
    return emitted


def test_letters_and_replays_over_restarts(
    spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    source, corrected, checkpoint = (str(tmp_path / name) for name in ("in", "corrected", "c"))
    main, dead = str(tmp_path / "main"), str(tmp_path / "dead")
    # Small cells and small maps: larger ones stay with the JVM.
    time = "2024-07-01 12:00:00"

    def feed(rows: list[tuple[int, int]]) -> None:
        df = spark.createDataFrame(rows, "key long, value long").withColumn(
            "at", F.lit(time).cast("timestamp")
        )
        df.coalesce(1).write.mode("append").parquet(source)

    def run() -> list[int]:
        read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(source)
        made = keystate.keyed(keystate.with_replays(read, corrected), "key").process(
            Keeps(), OUTPUT, on_error=keystate.dead_letters(DEAD, max_in_batch=20)
        )
        writer = made.write_outputs(FileSink(main), {DEAD: FileSink(dead)})
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        return [
            p.stateOperators[0].customMetrics["keystateDeadLetters"] for p in query.recentProgress
        ]

    good = [(i % 4, i) for i in range(20)]
    bad = [(i % 4, -1 - i) for i in range(6)]
    feed([row for pair in zip(good, bad) for row in pair])
    assert run()[0] == 6
    settings(**{"spark.keystate.backend": "rocksdb", "spark.sql.shuffle.partitions": "3"})
    feed([*good[6:10], (1, -100), *good[10:]])
    assert sum(run()) == 1

    letters = spark.read.parquet(dead)
    found = {letter.id: letter for letter in letters.collect()}
    assert len(found) == 7
    assert sorted((letter.row.key, letter.row.value) for letter in found.values()) == sorted(
        [*bad, (1, -100)]
    )
    letter = next(letter for letter in found.values() if letter.row.value == -100)
    assert (letter.key, letter.error, letter.message) == ("1", "ValueError", "-100 is negative")
    assert "process_element" in letter.traceback
    assert letter.batch == 1

    row = F.col("row").withField("value", F.lit(1000) - F.col("row.value"))
    mended = letters.withColumn("row", row)
    first = mended.where("row.value < 1004")
    assert keystate.replay_dead_letters(first, corrected) == 3
    assert sum(run()) == 0
    settings(**{"spark.keystate.backend": "hashmap", "spark.sql.shuffle.partitions": "2"})
    assert keystate.replay_dead_letters(mended, corrected) == 4
    assert keystate.replay_dead_letters(mended, corrected) == 0
    run()
    rows = spark.read.parquet(main)
    in_order = [(key, 1000 - value) for key, value in [*bad[:3], *bad[3:], (1, -100)]]
    of_key = defaultdict(list)
    for emitted in rows.collect():
        of_key[emitted.key].append(tuple(emitted))
    # Within a micro-batch of replays the rows come in any order.
    wanted = expected([*good, *in_order])
    for key in range(4):
        theirs = [each for each in wanted if each[0] == key]
        mine = sorted(of_key[key], key=lambda each: each[1])
        assert [each[1] for each in mine] == [each[1] for each in theirs]
        before = len([1 for k, _ in good if k == key])
        assert mine[:before] == theirs[:before]
        numbers = [json.loads(each[-1][2])[0] for each in (mine, theirs)]
        assert sorted(numbers[0]) == sorted(numbers[1])


def test_a_limit_fails_the_query_and_leaves_no_trace(
    spark: Any, stream: Any, tmp_path: Path
) -> None:
    fed = stream("key long, value long")

    def letters(df: Any) -> Any:
        made = keystate.keyed(df, "key").process(
            Keeps(), OUTPUT, on_error=keystate.dead_letters(AS_JSON, max_in_batch=1)
        )
        return made.with_side_outputs(AS_JSON)

    fed.feed([(1, 1), (1, -1), (1, -2)])
    with pytest.raises(StreamingQueryException, match="KEYSTATE_TOO_MANY_DEAD_LETTERS") as error:
        fed.run(letters)
    assert "max_in_batch=1" in str(error.value)
    assert "ValueError 2 times, first for key 1: '-1 is negative'" in str(error.value)


def test_letters_of_a_sink_and_of_batches(
    spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    """What a sink fails on is written elsewhere; of batches the rows that fail alone."""
    taken, letters = tmp_path / "taken", tmp_path / "letters"
    taken.mkdir()

    def invoke(row: Any, ctx: Any) -> None:
        (taken / str(row.value)).touch()
        if row.value % 3 == 0:
            raise ValueError(f"of {row.key}")

    def negative(batch: Any, ctx: Any) -> Any:
        values = batch.rows["value"].to_pylist()
        if min(values) < 0:
            raise ValueError(f"{min(values)} is negative")
        return {"key": batch.rows["key"]}

    plain = OutputTag("dead", keystate.dead_letter_schema())
    policy = keystate.dead_letters(plain)
    fed = stream("key long, value long")
    keyed = keystate.keyed(fed.source(), "key")
    with pytest.raises(DeclarationError, match="write_dead_letters needs"):
        keyed.add_sink(invoke, write_dead_letters=FileSink(str(letters)))
    fed.feed([(i % 2, i) for i in range(7)])
    writer = keyed.add_sink(invoke, on_error=policy, write_dead_letters=FileSink(str(letters)))
    query = writer.option("checkpointLocation", str(fed.checkpoint)).trigger(availableNow=True)
    query.start().awaitTermination()
    found = spark.read.parquet(str(letters)).select("message", "row").collect()
    rows = sorted(json.loads(letter.row)["value"] for letter in found)
    assert rows == [0, 3, 6] and {letter.message for letter in found} == {"of 0", "of 1"}
    assert len(list(taken.iterdir())) == 7  # what it did outside stays

    values = [5, -1, 7, 8, -2, 9, 10, 11]
    df = spark.createDataFrame([(v, v) for v in values], "key long, value long").coalesce(1)
    made = keystate.keyed(df, "key").process_batches(negative, "key long", on_error=policy)
    tagged = made.with_side_outputs(plain).collect()
    assert sorted(row.main.key for row in tagged if row.main) == [5, 7, 8, 9, 10, 11]
    assert sorted(row.dead.key for row in tagged if row.dead) == ["-1", "-2"]


def test_json_is_read_in_a_batch_query(spark: Any) -> None:
    """In a session whose time zone is not that of the workers."""
    rows = spark.sql(
        "SELECT 1L AS key, -1L AS value, timestamp'2024-07-01 12:00:00.5' AS at, "
        "cast(1.50 AS decimal(5,2)) AS price, date'2024-07-01' AS day, X'ab01' AS bytes, "
        "map('a', array(1.5D, double('NaN'))) AS of, named_struct('x', null, 'y', 2) AS part, "
        "timestamp_ntz'2024-07-01 12:00:00' AS local"
    )
    made = keystate.keyed(rows, "key").process(
        Keeps(), OUTPUT, on_error=keystate.dead_letters(AS_JSON)
    )
    letters = made.side_output(AS_JSON).withColumn("row", F.from_json("row", rows.schema))
    (letter,) = letters.collect()
    assert str(letter.row) == str(rows.first())
    assert (letter.batch, letter.time) == (None, None)


def test_replays_of_runs_in_another_order(spark: Any, tmp_path: Path) -> None:
    """No row is left out where two runs of a micro-batch gave one id to different rows."""
    schema = "key string, value long, at timestamp, more map<string, long>"
    time = datetime(2024, 1, 1, 0, 0, 0, 1)
    later = time.replace(microsecond=2)
    letter = f"id string, row struct<{schema}>"

    def rows(folder: str) -> list[Any]:
        found = spark.read.parquet(folder).where("row is not null").select("row.*").collect()
        return sorted((row.key, row.value, row.at.microsecond, row.more) for row in found)

    def replayed(name: str, *calls: list[Any]) -> tuple[list[int], list[Any]]:
        folder = str(tmp_path / name)
        keystate.with_replays(spark.readStream.schema(schema).parquet(str(tmp_path)), folder)
        counts = [
            keystate.replay_dead_letters(spark.createDataFrame(letters, letter), folder)
            for letters in calls
        ]
        return counts, rows(folder)

    a, b = ("a", None, time, {"x": 1}), ("a", None, later, {"x": 1})
    first, second = [("0-0-1", a), ("0-0-2", b)], [("0-0-1", b), ("0-0-2", a)]
    for calls in ([first + second], [first, second], [first, second + first]):
        counts, found = replayed(f"swapped{len(calls)}{len(calls[-1])}", *calls)
        assert sum(counts) == 4 and {row[2] for row in found} == {1, 2}
    assert replayed("again", first, first, first[:1] * 2)[0] == [2, 0, 0]
    # Equal rows of one run are both there.
    assert replayed("equal", [("0-0-1", a), ("0-0-2", a)])[0] == [2]
    assert replayed("none", [(None, a), (None, b), (None, a)], [(None, a)])[0] == [2, 0]
    # With the ids that letters have, each is there once, also if its row is corrected anew.
    hashes = ("0-0123456789abcdef-1", "0-0123456789abcdef-2", "0-fedcba9876543210-1")
    of_rows = list(zip(hashes, (a, a, b)))
    counts, found = replayed("rows", of_rows[::-1] + of_rows, [(hashes[0], b)])
    assert counts == [3, 0] and [row[2] for row in found] == [1, 1, 2]


def test_replays_of_a_micro_batch_that_runs_again_with_other_partitions(
    spark: Any, stream: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """The sink of the letters is not exactly-once: it has those of both runs."""
    fed, corrected = stream("key long, value long, at timestamp"), str(tmp_path / "corrected")
    found: list[Any] = []
    emitted: list[int] = []

    def run(partitions: int, fails: bool = False) -> None:
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})

        def write(letters: Any, batch: int) -> None:
            found.extend(letters.collect())
            if fails:
                raise RuntimeError("the sink fails")

        rows = keystate.with_replays(fed.source(), corrected)
        made = keystate.keyed(rows, "key").process(
            Keeps(), OUTPUT, on_error=keystate.dead_letters(DEAD)
        )
        writer = made.write_outputs(
            lambda df, batch: emitted.extend(row.key for row in df.collect()), {DEAD: write}
        )
        query = writer.option("checkpointLocation", str(fed.checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    fed.feed([(key, value, None) for key in range(8) for value in (key, -key - 1, -key - 1)])
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        run(2, fails=True)
    run(3)
    assert len(found) == 32 and len({letter.id for letter in found}) == 16
    emitted.clear()
    row = F.col("row").withField("value", F.lit(100).cast("long"))
    letters = spark.createDataFrame(
        [(letter.id, letter.row) for letter in found], f"id string, row struct<{SCHEMA}>"
    )
    assert keystate.replay_dead_letters(letters.withColumn("row", row), corrected) == 16
    run(3)
    assert sorted(emitted) == sorted([*range(8)] * 2)


def test_letters_of_equal_rows_in_several_partitions(spark: Any) -> None:
    """Without keys they are not brought together in a batch query."""

    def fail(row: Any, ctx: Any) -> Any:
        raise ValueError

    tag = OutputTag("dead", keystate.dead_letter_schema("id long"))
    rows = spark.range(0, 12, 1, 4).select((F.col("id") % 2).alias("id"))
    made = keystate.stream(rows).process(fail, "id long", on_error=keystate.dead_letters(tag))
    letters = made.side_output(tag)
    for found in (letters.collect(), letters.coalesce(1).collect()):
        assert len({letter.id for letter in found}) == 12


def test_replays_of_what_does_not_fit(spark: Any, tmp_path: Path) -> None:
    read = spark.readStream.schema(SCHEMA).parquet(str(tmp_path))
    marked = read.withWatermark("at", "1 minute")
    with pytest.raises(DeclarationError, match="withWatermark"):
        keystate.with_replays(marked, str(tmp_path / "folder"))
    keystate.with_replays(read, str(tmp_path / "folder"))
    other = spark.createDataFrame([("1", (1,))], "id string, row struct<key: long>")
    with pytest.raises(DeclarationError, match="from_json"):
        keystate.replay_dead_letters(other, str(tmp_path / "folder"))
    with pytest.raises(DeclarationError, match="columns id and row"):
        keystate.replay_dead_letters(other.select("id"), str(tmp_path / "folder"))


class Looks(KeyedProcessFunction):
    """Passes rows on through a state, and looks at the time of those that say so."""

    def open(self, ctx: Any) -> None:
        kind = "until timestamp, day date, local timestamp_ntz"
        self.state = ctx.get_state(ValueStateDescriptor("s", kind))
        self.by_time = ctx.get_map_state(MapStateDescriptor("m", "timestamp", "date"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.looks is not None:
            assert getattr(row, row.looks) < NOW
        self.state.update((row.until, row.day, row.local))
        self.by_time[row.until] = row.day
        kept = self.state.value()
        yield row.key, kept.until, self.by_time[row.until], kept.local, ctx.timestamp()


NOW = datetime(2024, 1, 1)


def test_times_that_python_has_not(spark: Any) -> None:
    rows = spark.sql(
        "SELECT *, timestamp_micros(253402300800000000L) AS until, "
        "date_add(date'9999-12-31', 1) AS day, "
        "timestamp_ntz'0000-12-31 23:59:59.999999' AS local "
        "FROM VALUES ('a', null), ('b', 'until'), ('c', 'day'), ('d', 'local') AS t(key, looks)"
    )
    dead = OutputTag("dead", keystate.dead_letter_schema(rows.schema))
    output = "key string, until timestamp, day date, local timestamp_ntz, at long"
    keyed = keystate.keyed(rows, "key")

    def made(on_error: Any) -> Any:
        return keyed.process(Looks(), output, on_error=on_error, event_time="until")

    tagged = made(keystate.dead_letters(dead)).with_side_outputs(dead)
    texts = tagged.where("main IS NOT NULL").selectExpr(
        "main.key", "unix_micros(main.until)", "unix_date(main.day)",
        "cast(main.local AS string)", "main.at",
    )  # fmt: skip
    (row,) = texts.collect()
    assert tuple(row) == (
        "a", 253402300800000000, 2932897, "0000-12-31 23:59:59.999999", 253402300800000
    )  # fmt: skip
    letters = tagged.where("dead IS NOT NULL").select("dead.key", "dead.message", "dead.row.key")
    found = {key: message for key, message, of in letters.collect() if key == f'"{of}"'}
    assert set(found) == {'"b"', '"c"', '"d"'}
    for column, key in (("until", '"b"'), ("day", '"c"'), ("local", '"d"')):
        assert f"in column '{column}' is before or after the years" in found[key]
    with pytest.raises(PythonException, match=r"(?s)ValueError.*in column '\w+' is before.*key '"):
        made("fail").collect()
    with_json = made(keystate.dead_letters(AS_JSON)).side_output(AS_JSON)
    texts = [row.row for row in with_json.select("row").collect()]
    assert all('"until": "+10000-01-01T00:00:00+00:00"' in text for text in texts)
