"""Keystate from a client of Spark Connect, whose server is another process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    ConfigurationError,
    DeclarationError,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    MapStateDescriptor,
    OutputTag,
    ScalingPolicy,
    SourceFunction,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm import bridge, connect
from keystate.windows import TumblingEventTimeWindows
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import functions as F

ODD = OutputTag("odd", "key long, n long")
NAMES = MapStateDescriptor("names", "long", "string")
SCHEMA = "key long, value long"


class Total(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        total = self.total.value() + row.value
        self.total.update(total)
        if total % 2:
            yield ODD, (row.key, total)
        yield row.key, total


class Timers(Total):
    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(10**15 + row.value)
        return super().process_element(row, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        pass


def totals(df: Any, fn: Any = None) -> Any:
    return keystate.keyed(df, "key").process(fn or Total(), "key long, total long")


def tuples(rows: Any) -> list[Any]:
    return sorted(tuple(row) for row in (rows if isinstance(rows, list) else rows.collect()))


@pytest.mark.turns
def test_a_stream_restarts_with_other_partitions(
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    fed = stream(SCHEMA)
    fed.feed([(key, 1) for key in range(20)], [(key, 1) for key in range(20)])
    assert tuples(fed.run(totals)) == sorted((key, n) for key in range(20) for n in (1, 2))
    settings(**{"spark.sql.shuffle.partitions": "5"})
    fed.feed([(key, 1) for key in range(30)])
    expected = [(key, 3 if key < 20 else 1) for key in range(30)]
    assert tuples(fed.run(totals)) == expected
    checkpoint = str(fed.checkpoint)
    assert admin.inspect(checkpoint)["partitions"] == 5
    read = admin.read_state(spark, checkpoint, state="total").select("key.key", "value.value")
    assert tuples(read) == expected
    table = spark.sql(f"SELECT key.key, value.value FROM keystate.`{checkpoint}`.total")
    assert tuples(table) == expected and tuples(table.where("key = 5")) == [(5, 3)]
    assert admin.verify(checkpoint) == []
    copy = str(tmp_path / "savepoint")
    assert admin.savepoint(checkpoint, copy) == 2
    assert keystate.rescale(copy, 3) == 5
    (same,) = admin.diff(checkpoint, copy)
    assert (same["same"], same["added"], same["removed"], same["changed"]) == (30, 0, 0, 0)
    (tmp_path / "report.html").write_text(admin.report(copy).html())
    assert "total" in (tmp_path / "report.html").read_text()


@pytest.mark.turns
def test_an_elastic_query(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    fed = stream(SCHEMA)
    settings(**{"spark.sql.shuffle.partitions": "2"})

    def start() -> Any:
        writer = totals(fed.source()).writeStream.format("noop")
        return writer.option("checkpointLocation", str(fed.checkpoint)).start()

    with pytest.raises(ConfigurationError, match="max_partitions"):
        keystate.elastic(start, ScalingPolicy(), spark=spark)
    query = keystate.elastic(start, ScalingPolicy(max_partitions=4), spark=spark)
    try:
        fed.feed([(1, 5), (2, 6)])
        query.processAllAvailable()
        assert query.rescale(3).before == 2
        with pytest.raises(CheckpointError, match="KEYSTATE_PARALLELISM_TOO_HIGH"):
            query.rescale(1000)
        fed.feed([(1, 5)])
        query.processAllAvailable()
        assert query.isActive and query.partitions == 3
    finally:
        query.stop()
    read = admin.read_state(spark, str(fed.checkpoint), state="total")
    assert tuples(read.select("key.key", "value.value")) == [(1, 10), (2, 6)]


def test_checkpoints_are_made_and_changed(
    spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    made, changed = str(tmp_path / "made"), str(tmp_path / "changed")
    rows = spark.createDataFrame([(1, 10), (2, 20)], SCHEMA)
    timers = spark.sql(
        "SELECT 2L AS key, 'PROCESSING_TIME' AS time_domain, 1000000000000000L AS "
        "expiration_timestamp_ms"
    )
    states = {"total": rows}
    admin.create(made, Timers(), key="key long", states=states, timers=timers, spark=spark)
    fed = stream(SCHEMA)
    fed.checkpoint = Path(made)
    fed.feed([(1, 1)])
    # As docs/state-writer.md tells for a file sink.
    (tmp_path / "output" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "output" / "_spark_metadata" / "0").write_text("v1\n")
    assert tuples(fed.run(lambda df: totals(df, Timers()))) == [(1, 11)]
    editor = admin.edit(made, spark=spark)
    total = editor.read("total")
    assert tuples(total.select("key.key", "value")) == [(1, 11), (2, 20)]
    editor.replace("total", total.withColumn("value", F.col("value") + 100))
    editor.add(ValueStateDescriptor("first", "long"), rows)
    editor.set_max_parallelism(64)
    assert editor.write(changed) == 1
    for state, expected in (("total", [(1, 111), (2, 120)]), ("first", [(1, 10), (2, 20)])):
        read = admin.read_state(spark, changed, state=state).select("key.key", "value.value")
        assert tuples(read) == expected
    (operator,) = admin.inspect(changed)["operators"]
    assert (operator["max_parallelism"], len(operator["states"])) == (64, 3)
    with pytest.raises(CheckpointError) as there:
        editor.write(changed)
    assert there.value.code == "KEYSTATE_TARGET_EXISTS"


def test_a_key_is_forgotten(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([(1, 5), (2, 7)])
    fed.run(lambda df: totals(df, Timers()))
    checkpoint = str(fed.checkpoint)
    assert admin.forget(checkpoint, key=1, spark=spark)["operators"] == [0]
    fed.feed([(1, 10), (2, 10)])
    assert tuples(fed.run(lambda df: totals(df, Timers()))) == [(1, 10), (2, 17)]
    timers = admin.read_state(spark, checkpoint, state="$timers").select("expiration_timestamp_ms")
    assert tuples(timers) == [(10**15 + 7,), (10**15 + 10,), (10**15 + 10,)]
    assert admin.traces(checkpoint, key=1, spark=spark)["key"]  # in the files of the first version


def test_timers_are_read(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([(1, 5), (2, 7)])
    fed.run(lambda df: totals(df, Timers()))
    timers = admin.read_state(spark, str(fed.checkpoint), state="$timers")
    found = tuples(timers.select("key.key", "expiration_timestamp_ms"))
    assert found == [(1, 10**15 + 5), (2, 10**15 + 7)]


@pytest.mark.turns
def test_batches(spark: Any) -> None:
    rows = spark.createDataFrame([(1, 2), (1, 3), (2, 4)], SCHEMA)
    keyed = keystate.keyed(rows, F.col("key") % 2, order_by=F.desc("value"))
    assert tuples(keyed.map(lambda row: row.value * 10, "n long")) == [(20,), (30,), (40,)]
    assert tuples(keyed.flat_map(lambda row: [row.key] * row.key, "n long")) == [(1,)] * 2 + [
        (2,),
        (2,),
    ]
    assert tuples(keyed.filter(lambda row: row.value > 2)) == [(1, 3), (2, 4)]
    reduced = keystate.keyed(rows, "key").reduce(lambda a, b: (a.key, a.value + b.value))
    assert tuples(reduced) == [(1, 5), (2, 4)]
    stream = keystate.keyed(rows, "key")
    assert tuples(stream.aggregate(F.mean("value"))) == [(1, 2.5), (2, 4.0)]
    # The larger value of a key comes first.
    assert tuples(keyed.process(Total(), "key long, total long")) == [(1, 3), (1, 5), (2, 4)]
    assert tuples(keystate.stream(rows).map(lambda row: row.key, "k long")) == [(1,), (1,), (2,)]
    again = totals(totals(rows).selectExpr("key", "total AS value"))
    assert {row[0] for row in tuples(again)} == {1, 2}


class Both(KeyedCoProcessFunction):
    def open(self, ctx: Any) -> None:
        self.name = ctx.get_state(ValueStateDescriptor("name", "string", default="?"))

    def process_element1(self, row: Any, ctx: Any) -> None:
        self.name.update(row.name)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield row.value, self.name.value()


class Named(KeyedBroadcastProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.value, ctx.get_broadcast_state(NAMES).get(row.key)

    def process_broadcast_element(self, row: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(NAMES).put(row.id, row.name)


def test_columns_are_aggregated_and_joined(spark: Any) -> None:
    rows = spark.createDataFrame(
        [("a", 1, 10), ("a", 2, 70), ("b", 3, 20)], "key string, value long, at long"
    ).withColumn("time", F.timestamp_seconds("at"))
    minutes = keystate.keyed(rows, "key").window(
        TumblingEventTimeWindows.of(60_000), event_time="time"
    )
    totals = minutes.aggregate(
        (F.sum("value") * 10).alias("total"), F.expr("count(*) FILTER (WHERE value > 1)").alias("n")
    )
    assert tuples(totals.select("key", "total", "n")) == [("a", 10, 0), ("a", 20, 1), ("b", 30, 1)]
    earlier = rows.select("key", "time", F.col("value").alias("before"))
    joined = keystate.keyed(rows, "key").join_asof(
        keystate.keyed(earlier, "key"), left_on="time", right_on="time", allow_exact_matches=False
    )
    found = joined.select("key", "value", "before").orderBy("key", "value").collect()
    assert [tuple(row) for row in found] == [("a", 1, None), ("a", 2, 1), ("b", 3, None)]
    with pytest.raises(DeclarationError, match="DISTINCT"):
        minutes.aggregate(F.count_distinct("value"))


def test_two_inputs_and_broadcast(spark: Any) -> None:
    names = spark.createDataFrame([(1, "ann"), (2, "bob")], "id long, name string")
    rows = spark.createDataFrame([(1, 5), (2, 6), (3, 7)], SCHEMA)
    keyed = keystate.keyed(rows, "key")
    two = keystate.keyed(names, "id").connect(keyed).process(Both(), "value long, name string")
    assert tuples(two) == [(5, "ann"), (6, "bob"), (7, "?")]
    by = keyed.connect(keystate.broadcast(names, NAMES)).process(Named(), "value long, name string")
    assert sorted(map(tuple, by.collect())) == [(5, "ann"), (6, "bob"), (7, None)]


@pytest.mark.turns
def test_side_outputs(spark: Any, stream: Callable[..., Any], tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, 2), (1, 3), (2, 4)], SCHEMA).coalesce(1)
    result = totals(rows)
    assert isinstance(result, keystate.ResultDataFrame)
    assert tuples(result) == [(1, 2), (1, 5), (2, 4)]
    assert tuples(result.side_output(ODD)) == [(1, 5)]
    fed = stream(SCHEMA)
    fed.feed([(1, 2), (1, 3)])
    places = {name: str(tmp_path / name) for name in ("main", "odd")}
    query = (
        totals(fed.source())
        .write_outputs(
            lambda df, _: df.write.mode("append").parquet(places["main"]),
            {ODD: lambda df, _: df.write.mode("append").parquet(places["odd"])},
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert tuples(spark.read.parquet(places["main"])) == [(1, 2), (1, 5)]
    assert tuples(spark.read.parquet(places["odd"])) == [(1, 5)]


class Numbers(SourceFunction, ListCheckpointed):
    def __init__(self, until: int) -> None:
        self.until = until
        self.next = 0

    def run(self, ctx: Any) -> None:
        while self.next < self.until:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1

    def cancel(self) -> None:
        self.until = 0

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [self.next]

    def restore_state(self, state: list[Any]) -> None:
        (self.next,) = state


@pytest.mark.turns
def test_a_source_goes_on_from_its_state(spark: Any, tmp_path: Path) -> None:
    def run(until: int) -> list[Any]:
        output = str(tmp_path / "output")
        df = keystate.source(spark, Numbers(until), "n long")
        writer = df.writeStream.format("parquet").option("path", output)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return tuples(spark.read.parquet(output))

    assert run(50) == [(n,) for n in range(50)]
    assert run(60) == [(n,) for n in range(60)]


class Fails(Total):
    def process_element(self, row: Any, ctx: Any) -> Any:
        raise ValueError("mine")


class OtherType(Total):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "string"))


@pytest.mark.turns
def test_errors_are_those_of_a_classic_session(
    spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    rows = spark.createDataFrame([(1, 2)], SCHEMA)
    maps = rows.select(F.create_map("key", "value").alias("key"), "value")
    for broken, code in (
        (lambda: totals(maps), "KEYSTATE_KEY_TYPE"),
        (lambda: keystate.keyed(rows, F.explode(F.array("key"))).filter(bool), None),
        (lambda: keystate.keyed(rows), "KEYSTATE_DECLARATION"),
    ):
        with pytest.raises(DeclarationError) as declared:
            broken()
        assert code is None or declared.value.code == code
    with pytest.raises(CheckpointError) as missing:
        admin.inspect(str(tmp_path / "nothing"))
    assert missing.value.code == "KEYSTATE_NO_CHECKPOINT"
    with pytest.raises(PythonException, match="ValueError: mine"):
        totals(rows, Fails()).collect()
    fed = stream(SCHEMA)
    fed.feed([(1, 2)])
    fed.run(totals)
    fed.feed([(1, 2)])
    with pytest.raises(StreamingQueryException, match="KEYSTATE_STATE_CHANGED"):
        fed.run(lambda df: totals(df, OtherType()))
    assert tuples(fed.run(totals)) == [(1, 4)]
    with pytest.raises(CheckpointError) as unknown:
        admin.read_state(spark, str(fed.checkpoint), state="none")
    assert unknown.value.code == "KEYSTATE_NO_SUCH_STATE"


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"_PYTHON": "3.1"}, "KEYSTATE_PYTHON_VERSION", r"run Python 3\.\d+, this client 3\.1:"),
        ({"versions": lambda: {"keystate": "9"}}, "KEYSTATE_SPARK_CONNECT", "this client 9:"),
        ({"_TYPE_URL": "other/1"}, "KEYSTATE_SPARK_CONNECT", "KeystateConnectPlugin"),
    ],
)
def test_a_server_that_does_not_fit(
    change: dict[str, Any],
    code: str,
    message: str,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect.JVM, "_checked", set())
    for name, value in change.items():
        monkeypatch.setattr(connect, name, value)
    with pytest.raises(ConfigurationError, match=message) as error:
        totals(spark.createDataFrame([(1, 2)], SCHEMA))
    assert error.value.code == code


def test_a_call_that_the_server_does_not_know(spark: Any) -> None:
    with pytest.raises(CheckpointError) as error:
        bridge.call(spark, "unheardOf")
    assert error.value.code == "KEYSTATE_SPARK_CONNECT"


def test_a_deep_plan_below_a_function(spark: Any) -> None:
    """Deeper than protobuf allows by default."""
    rows = spark.createDataFrame([(1, 2)], SCHEMA)
    for _ in range(70):
        rows = rows.where("value > 0")
    assert tuples(totals(rows)) == [(1, 2)]
