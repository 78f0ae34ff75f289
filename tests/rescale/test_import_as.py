"""Functions go on from the state of Spark's operators, on each of Spark's providers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import keystate
import pandas as pd
import pytest
from keystate import (
    CheckpointError,
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
    admin,
)
from keystate.admin import Successor
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.rescale.test_import import OURS, PROVIDER, SPARK
from tests.timed import run_at

ROWS = "user string, n long"
OUT = "user string, told string"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
#: A time, in ms since the epoch.
T0 = 1_700_000_000_000
#: Spark's own operator in Python takes half a millisecond or more for each.
KEYS = 200_000 if "SLOW" in os.environ else 50

PROVIDERS = [
    pytest.param("HDFSBacked", "false", id="hdfs"),
    pytest.param("RocksDB", "false", id="rocksdb"),
    pytest.param("RocksDB", "true", id="changelog"),
]


def applied(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    total, rows = state.get if state.exists else (0, 0)
    for frame in frames:
        total, rows = total + int(frame["n"].sum()), rows + len(frame)
    state.update((total, rows))
    state.setTimeoutDuration(3_600_000)
    yield pd.DataFrame({"user": [key[0]], "told": [f"{total} {rows}"]})


def spark_applied(df: Any) -> Any:
    return df.groupBy("user").applyInPandasWithState(
        applied, OUT, "total long, rows long", "update", "ProcessingTimeTimeout"
    )


class Applied(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.both = ctx.get_state(ValueStateDescriptor("both", "total long, rows long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        total, rows = self.both.value() or (0, 0)
        self.both.update((total + row.n, rows + 1))
        yield row.user, f"{total + row.n} {rows + 1}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), "timeout"


def ours_applied(df: Any) -> Any:
    return keystate.keyed(df, "user").process(Applied(), OUT, time_mode="processing_time")


class Transform(StatefulProcessor):
    """Fails on negative numbers."""

    ttl: int | None = None  # in ms

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long", self.ttl)
        self.all = handle.getListState("all", "n long", self.ttl)
        self.by = handle.getMapState("by", "rest long", "n long", self.ttl)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for frame in rows:
            for n in frame["n"].tolist():
                if n < 0:
                    raise ValueError(f"{n} is for the next query")
                self.count.update(((self.count.get()[0] if self.count.exists() else 0) + 1,))
                self.all.appendValue((n,))
                self.by.updateValue((n % 2,), (n,))
        yield pd.DataFrame({"user": [key[0]], "told": ["-"]})

    def close(self) -> None:
        pass


class Transformed(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))
        self.by = ctx.get_map_state(MapStateDescriptor("by", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        self.all.add(row.n)
        self.by[row.n % 2] = row.n
        yield row.user, f"{self.count.value()} {list(self.all)} {sorted(self.by.items())}"


def ours_transformed(df: Any) -> Any:
    return keystate.keyed(df, "user").process(Transformed(), OUT)


def spark_transformed(df: Any) -> Any:
    return df.groupBy("user").transformWithStateInPandas(Transform(), OUT, "Update", "None")


def start(
    stream: Callable[..., Any],
    settings: Callable[..., None],
    provider: str,
    changelog: str,
    build: Any,
    keys: int,
) -> Any:
    settings(
        **{
            PROVIDER: f"{SPARK}{provider}StateStoreProvider",
            CHANGELOG: changelog,
            # With timeouts by processing time Spark would run one such batch after the other.
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    fed = stream(ROWS)
    fed.feed([(f"u{i}", i) for i in range(keys)], [(f"u{i}", i + 1) for i in range(keys)])
    fed.run(build, mode="update")
    settings(**{PROVIDER: OURS, "spark.sql.shuffle.partitions": "3"})
    return fed


@pytest.mark.turns
@pytest.mark.parametrize(("provider", "changelog"), PROVIDERS)
def test_apply_in_pandas_with_state(
    provider: str, changelog: str, spark: Any, stream: Any, settings: Any, tmp_path: Path
) -> None:
    fed = start(stream, settings, provider, changelog, spark_applied, KEYS)
    target = tmp_path / "functions"
    after = admin.import_as(
        str(fed.checkpoint),
        str(target),
        {
            0: Successor(
                Applied(),
                {"both": lambda old: old.read()},
                key="user string",
                timers=lambda old: old.timers(),
                time_mode="processing_time",
            )
        },
    )
    assert after == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["functions", "stream1"]
    assert admin.verify(str(target)) == []
    timers = admin.read_state(spark, str(target), state="$timers")
    assert timers.count() == KEYS
    fed.checkpoint = target
    fed.feed([(f"u{i}", 5) for i in range(KEYS + 1)])
    told = {row.user: row.told for row in fed.run(ours_applied)}
    expected = {f"u{i}": f"{2 * i + 6} 3" for i in range(KEYS)}
    assert told == {**expected, f"u{KEYS}": "5 1"}


@pytest.mark.turns
@pytest.mark.parametrize(("provider", "changelog"), PROVIDERS[1:])
def test_transform_with_state(
    provider: str, changelog: str, spark: Any, stream: Any, settings: Any, tmp_path: Path
) -> None:
    """Spark runs it on RocksDB only."""
    fed = start(stream, settings, provider, changelog, spark_transformed, 20)
    target = tmp_path / "functions"
    admin.import_as(
        str(fed.checkpoint),
        str(target),
        {
            0: Successor(
                Transformed(),
                {
                    "count": lambda old: old.read("count").selectExpr("key", "value.n as value"),
                    "all": lambda old: old.read("all").selectExpr(
                        "key", "list_element.n as list_element"
                    ),
                    "by": lambda old: old.read("by").selectExpr(
                        "key", "user_map_key.rest as user_map_key",
                        "user_map_value.n as user_map_value",
                    ),
                },
                key="user string",
            )
        },
    )  # fmt: skip
    fed.checkpoint = target
    fed.feed([(f"u{i}", 2) for i in range(20)])
    told = {row.user: row.told for row in fed.run(ours_transformed)}
    assert told == {f"u{i}": f"3 {[i, i + 1, 2]} {[(0, 2), (1, i + 1 - i % 2)]}" for i in range(20)}


class Expiring(Transform):
    ttl = 100


def spark_expiring(df: Any) -> Any:
    return df.groupBy("user").transformWithStateInPandas(
        Expiring(), OUT, "Append", "ProcessingTime"
    )


@pytest.mark.turns
@pytest.mark.parametrize("pending", [False, True])
def test_what_has_expired_stays_behind(
    pending: bool, spark: Any, stream: Any, settings: Any, tmp_path: Path
) -> None:
    """By the clock of a pending batch: Spark removes what has expired when a batch ends."""
    settings(
        **{
            PROVIDER: f"{SPARK}RocksDBStateStoreProvider",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    fed = stream(ROWS)
    run_at(fed, spark_expiring, [(T0, [("a", 0), ("b", 0)]), (T0 + 60, [("b", 1), ("c", 2)])])
    at = T0 + Expiring.ttl
    if pending:
        with pytest.raises(StreamingQueryException, match="for the next query"):
            run_at(fed, spark_expiring, [(at, [("a", -1), ("b", -2)])])
    else:
        run_at(fed, spark_expiring, [(at, [("d", 3)])])
    target = str(tmp_path / "functions")
    states: dict[str, Callable[[admin.SparkOperatorState], Any]] = {
        "count": lambda old: old.read("count").selectExpr("key", "value.value.n as value"),
        "all": lambda old: old.read("all").selectExpr(
            "key", "list_element.value.n as list_element"
        ),
        "by": lambda old: old.read("by").selectExpr(
            "key", "user_map_key.rest as user_map_key", "user_map_value.value.n as user_map_value"
        ),
    }
    successor = Successor(Transformed(), states, key="user string")
    assert admin.import_as(str(fed.checkpoint), target, {0: successor}) == 2 - pending

    def stored(state: str, *columns: str) -> list[Any]:
        rows = admin.read_state(spark, target, state=state).selectExpr("key.user", *columns)
        return sorted(tuple(row) for row in rows.collect() if row.user != "d")

    assert stored("count", "value.value") == [("b", 2), ("c", 1)]
    assert stored("all", "list_element.value") == [("b", 1), ("c", 2)]
    assert stored("by", "user_map_key.key", "user_map_value.value") == [("b", 1, 1), ("c", 0, 2)]
    settings(**{PROVIDER: OURS})
    fed.checkpoint = tmp_path / "functions"
    if not pending:
        fed.feed([("a", -1), ("b", -2)])
    told = {row.user: row.told for row in fed.run(ours_transformed)}
    assert told == {"a": "1 [-1] [(1, -1)]", "b": "3 [1, -2] [(0, -2), (1, 1)]"}


FAR = 4_000_000_000_000
#: Names that Spark gives to what it keeps beside a user's state.
ODD = "groupState string, timeoutTimestamp long"
LOOKS = "value long, ttlExpirationMs long"
OLD_STATES = ["odd", "looks", "entries", "by"]


class Odd(StatefulProcessor):
    """States of each kind, with fields that are called as Spark's own, and a timer."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.odd = handle.getValueState("odd", ODD)
        self.looks = handle.getValueState("looks", LOOKS)
        self.entries = handle.getListState("entries", LOOKS)
        self.by = handle.getMapState("by", "rest long", LOOKS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            self.odd.update((key[0], 7))
            for n in row["n"].tolist() if isinstance(row, pd.DataFrame) else [row.n]:
                self.looks.update((n, 1))
                self.entries.appendValue((n, 2))
                self.by.updateValue((n % 2,), (n, 3))
                if self.timed:
                    self.handle.registerTimer(FAR + n)
        made = {"user": [key[0]], "told": ["-"]}
        yield pd.DataFrame(made) if self.pandas else Row(user=key[0], told="-")

    def close(self) -> None:
        pass

    def __init__(self, pandas: bool, timed: bool) -> None:
        self.pandas, self.timed = pandas, timed


def odd_applied(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    for _ in frames:
        state.update((key[0], 7))
    state.setTimeoutTimestamp(FAR)
    yield pd.DataFrame({"user": [key[0]], "told": ["-"]})


class Oddly(KeyedProcessFunction):
    """Any states of the same types."""

    def open(self, ctx: Any) -> None:
        self.odd = ctx.get_state(ValueStateDescriptor("odd", ODD))
        self.looks = ctx.get_state(ValueStateDescriptor("looks", LOOKS))
        self.entries = ctx.get_list_state(ListStateDescriptor("entries", LOOKS))
        self.by = ctx.get_map_state(MapStateDescriptor("by", "rest long", LOOKS))

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.user, f"{tuple(self.odd.value())} {self.looks.value()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), f"{timestamp}"


def timed_rows(df: Any) -> Any:
    return df.selectExpr("*", "timestamp_seconds(1000 + n) AS at").withWatermark("at", "0 seconds")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("operator", "mode"),
    [
        ("transformWithState", "ProcessingTime"),
        ("transformWithState", "EventTime"),
        ("transformWithStateInPandas", "ProcessingTime"),
        ("transformWithStateInPandas", "None"),
        ("applyInPandasWithState", "EventTimeTimeout"),
    ],
)
def test_each_row_of_the_page(
    operator: str, mode: str, spark: Any, stream: Any, settings: Any, tmp_path: Path
) -> None:
    """States of each kind and timers, and what is not there is told with what there is."""
    transforms = operator != "applyInPandasWithState"
    by_event_time = mode.startswith("EventTime")

    def build(df: Any) -> Any:
        grouped = (timed_rows(df) if by_event_time else df).groupBy("user")
        if not transforms:
            return grouped.applyInPandasWithState(odd_applied, OUT, ODD, "update", mode)
        processor = Odd(operator.endswith("InPandas"), mode != "None")
        return getattr(grouped, operator)(processor, OUT, "Update", mode)

    fed = start(stream, settings, "RocksDB", "false", build, 2)
    names = OLD_STATES if transforms else ["odd"]
    seen: list[str] = []

    def told(of: Callable[[admin.SparkOperatorState], Any]) -> Callable[..., Any]:
        def read(old: admin.SparkOperatorState) -> Any:
            wrong = [lambda: old.read("nope"), *([old.read] if transforms else [])]
            for call in wrong:
                with pytest.raises(CheckpointError, match="KEYSTATE_NO_SUCH_STATE") as error:
                    call()
                seen.append(str(error.value))
            return of(old)

        return read

    states: dict[str, Any] = {name: name for name in names} if transforms else {}
    states["odd"] = told(lambda old: old.read("odd") if transforms else old.read())
    successor = Successor(Oddly(), states, key="user string", timers=lambda old: old.timers())
    target = str(tmp_path / "functions")
    if not transforms:
        with pytest.raises(DeclarationError, match="tell time_mode="):
            admin.import_as(str(fed.checkpoint), target, {0: successor})
        successor = replace(successor, time_mode="event_time")
    admin.import_as(str(fed.checkpoint), target, {0: successor})
    for error in seen:
        assert operator in error and all(name in error for name in names if transforms), error

    def stored(state: str, *columns: str) -> list[Any]:
        rows = admin.read_state(spark, target, state=state).selectExpr("key.user", *columns)
        return sorted(tuple(row) for row in rows.collect())

    assert stored("odd", "value.groupState", "value.timeoutTimestamp") == [
        (user, user, 7) for user in ("u0", "u1")
    ]
    timers = [("u0", FAR), ("u0", FAR + 1), ("u1", FAR + 1), ("u1", FAR + 2)]
    domain = "EVENT_TIME" if by_event_time else "PROCESSING_TIME"
    if not transforms:
        timers = [("u0", FAR), ("u1", FAR)]
    wanted = [] if mode == "None" else [(user, domain, time) for user, time in timers]
    assert stored("$timers", "time_domain", "expiration_timestamp_ms") == wanted
    if transforms:
        assert stored("looks", "value.*") == [("u0", 1, 1), ("u1", 2, 1)]
        assert stored("entries", "list_element.*") == [
            ("u0", 0, 2), ("u0", 1, 2), ("u1", 1, 2), ("u1", 2, 2)
        ]  # fmt: skip
        assert stored("by", "user_map_key.key.rest", "user_map_value.*") == [
            ("u0", 0, 0, 3), ("u0", 1, 1, 3), ("u1", 0, 2, 3), ("u1", 1, 1, 3)
        ]  # fmt: skip
    # The function takes the time mode of the query that goes on.
    fed.checkpoint = tmp_path / "functions"
    fed.feed([("u0", 5)])
    (row,) = fed.run(lambda df: keystate.keyed(timed_rows(df), "user").process(Oddly(), OUT))
    assert row.told.startswith("('u0', 7)")


class Opened(Applied):
    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.both.update((1000, 0))


def test_initial_state_does_not_come_again(
    spark: Any, stream: Any, settings: Any, tmp_path: Path
) -> None:
    """It would take the place of the state that goes on."""
    fed = start(stream, settings, "RocksDB", "false", spark_applied, 2)
    fed_to = tmp_path / "functions"
    successor = Successor(
        Opened(),
        {"both": lambda old: old.read()},
        key="user string",
        time_mode="processing_time",
    )
    admin.import_as(str(fed.checkpoint), str(fed_to), {0: successor})
    fed.checkpoint = fed_to
    opened = keystate.keyed(spark.createDataFrame([("u1", 0), ("u9", 0)], ROWS), "user")
    fed.feed([("u1", 5), ("u9", 5)])
    told = fed.run(
        lambda df: keystate.keyed(df, "user").process(
            Opened(), OUT, time_mode="processing_time", initial_state=opened
        )
    )
    assert {row.user: row.told for row in told} == {"u1": "8 3", "u9": "5 1"}


def test_an_operator_that_is_not_there(stream: Any, settings: Any, tmp_path: Path) -> None:
    fed = start(stream, settings, "RocksDB", "false", spark_applied, 2)
    successor = Successor(Applied(), {}, key="user string")
    with pytest.raises(CheckpointError, match="no operator 7"):
        admin.import_as(str(fed.checkpoint), str(tmp_path / "functions"), {7: successor})
    assert [path.name for path in tmp_path.iterdir()] == ["stream1"], "nothing is left"
