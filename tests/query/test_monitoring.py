"""A query's progress in Spark's metrics system, from where Prometheus and others get it."""

from __future__ import annotations

import contextlib
import html
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, ValueStateDescriptor
from keystate._types.waiting import wait_until
from pyspark.errors import StreamingQueryException

from tests.query.prometheus import DASHBOARD, MONITORING, ROOT, monitored, of_all

PAGE = (ROOT / "docs" / "running" / "monitoring.md").read_text()
ALERTS = (MONITORING / "alerts.yml").read_text()
PICTURE = ROOT / "docs" / "img" / "dashboard.svg"


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.rows = ctx.get_metrics_group().add_group("seen").counter("rows")

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.key < 0:
            raise ValueError("negative")
        self.rows.inc()
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def gauges(spark: Any, query: str) -> dict[str, float]:
    """What Spark's sinks are told of a query."""
    system = spark._jvm.org.apache.spark.SparkEnv.get().metricsSystem()
    (source,) = spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(
        system.getSourcesByName(f"keystate.{query}")
    )
    found = source.metricRegistry().getGauges()
    return {name: found[name].getValue() for name in found}


def test_gauges_are_the_last_progress(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    fed = stream("key long")

    def run() -> Any:
        counted = keystate.keyed(fed.source(), "key").process(Count(), "key long, count long")
        writer = counted.writeStream.queryName("orders").format("noop")
        writer = writer.option("checkpointLocation", str(fed.checkpoint))
        query = writer.trigger(availableNow=True).start()
        with contextlib.suppress(StreamingQueryException):
            query.awaitTermination()
        return query

    def told(name: str, value: float) -> dict[str, float]:
        """The gauges, once one has its value: Spark tells of progress on a thread of its own."""
        wait_until(lambda: gauges(spark, "orders").get(name) == value, f"{name} {value}")
        return gauges(spark, "orders")

    settings(**{"spark.sql.shuffle.partitions": "2"})
    # Many keys of one partition: another one has none.
    fed.feed([(key,) for key in range(10)], [(0,)] * 7)
    query = run()
    first, last = query.recentProgress[0], query.recentProgress[1]
    found = told("query.running", 0)
    assert found["query.starts"] == 1 and found["query.failures"] == found["query.fenced"] == 0
    # What is over is not told any more, but its names are.
    assert found["operator0.numRowsTotal"] == 0
    names = {f"operator0.{name}" for name in last.stateOperators[0].customMetrics}
    assert {name for name in names if "SnapshotLast" not in name} <= set(found)
    assert {"operator0.seen.rows", "query.batchDurationMs", "query.duration.addBatchMs"} <= set(
        found
    )
    # The largest of the partitions, not the sum of them.
    largest = [p.stateOperators[0].customMetrics["keystateLargestPartition"] for p in (first, last)]
    assert largest[0] == largest[1] and 5 <= largest[0] < 10
    assert first.stateOperators[0].numRowsTotal == 10

    fed.feed([(-1,)])
    assert "negative" in str(run().exception())
    found = told("query.failures", 1)
    assert (found["query.starts"], found["query.running"], found["query.fenced"]) == (2, 0, 0)


def test_another_query_of_the_same_name(spark: Any, stream: Callable[..., Any]) -> None:
    """Its source goes on: monitoring knows a query by its name."""
    for starts in (1, 2):
        fed = stream("key long")
        fed.feed([(1,)])
        counted = keystate.keyed(fed.source(), "key").process(Count(), "key long, count long")
        writer = counted.writeStream.queryName("again").format("noop")
        writer = writer.option("checkpointLocation", str(fed.checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        wait_until(lambda: "operator0.seen.rows" in gauges(spark, "again"), "gauges")
        assert gauges(spark, "again")["query.starts"] == starts


def test_gauges_while_it_runs(spark: Any, stream: Any, running: list[Any]) -> None:
    fed = stream("key long")
    fed.feed([(key,) for key in range(10)])
    counted = keystate.keyed(fed.source(), "key").process(Count(), "key long, count long")
    writer = counted.writeStream.format("noop")
    query = writer.option("checkpointLocation", str(fed.checkpoint)).start()
    running.append(query)
    query.processAllAvailable()
    # Without a name of its own it has that of its id.
    wait_until(lambda: "operator0.seen.rows" in gauges(spark, query.id), "gauges")
    found = gauges(spark, query.id)
    progress = next(p for p in query.recentProgress if p.numInputRows)
    for name, value in progress.stateOperators[0].customMetrics.items():
        if "SnapshotLast" not in name:
            assert found[f"operator0.{name}"] == value, name
    assert found["query.running"] == found["query.starts"] == 1
    assert found["query.numInputRows"] == 10 and found["operator0.numRowsTotal"] == 10


def expressions() -> Iterator[str]:
    """Of the alerts, both sides of the comparison; and of the panels."""
    for line in re.findall(r"expr: (.*)", ALERTS):
        yield from line.split(" > ")
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield of_all(target["expr"])


def metrics() -> set[str]:
    """The names in alerts and panels."""
    return set(re.findall(r"keystate_\w+", " ".join(expressions())))


def test_the_page_names_all_alerts_and_no_other() -> None:
    alerts = re.findall(r"alert: (\w+)", ALERTS)
    assert len(alerts) == len(set(alerts)) > 10
    assert re.findall(r"^\| `(Keystate\w+)` \|", PAGE, re.M) == alerts
    assert {name.split("{")[0] for name in re.findall(r"`(keystate_\w+)", PAGE)} <= metrics()


def test_the_picture_has_all_panels() -> None:
    titles = re.findall(r'font-weight="bold"[^>]*>([^<]+)<', PICTURE.read_text())
    assert titles == [html.escape(panel["title"]) for panel in DASHBOARD["panels"]]


@pytest.mark.spark
@pytest.mark.skipif("SLOW" not in os.environ, reason="needs Prometheus and a minute; set SLOW=1")
def test_a_prometheus_gets_data_for_all(tmp_path: Path) -> None:
    """A real one scrapes a query that has dead letters and one that fails."""
    if shutil.which("prometheus") is None:
        pytest.skip("there is no Prometheus; Debian's package is named prometheus")
    with monitored(tmp_path) as ask:

        def missing() -> list[str]:
            try:
                wanted = [one for one in expressions() if re.search("[a-z]", one)]
                return [one for one in wanted if not ask("query", query=one)["result"]]
            except OSError as e:
                return [str(e)]

        def firing() -> set[str]:
            alerts = ask("alerts")["alerts"]
            return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

        deadline = time.monotonic() + 120
        while left := missing():
            assert time.monotonic() < deadline, left
            time.sleep(1)
        while not {"KeystateDeadLetters", "KeystateQueryFailed"} <= firing():
            assert time.monotonic() < deadline, firing()
            time.sleep(1)
        (series, *_) = ask("query", query='keystate_numRowsTotal{query="my_orders"}')["result"]
        assert (series["metric"]["app"], series["metric"]["part"]) == ("shop", "operator0")
