"""The page of `keystate report` and `keystate serve`: its charts, its numbers, what it loads."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm import bridge
from keystate.tools.page import charts_js, document
from keystate.tools.page.charts import charts
from keystate.tools.page.spread import by_partition, choices, moved, partition_of, skew

from tests.query.browser import Browser

SCHEMA = "key string, n long, at timestamp"
EVIL = "</script><script>alert(1)</script><b>"


class Shown(KeyedProcessFunction):
    """A state of each kind that a page tells apart, and timers."""

    def open(self, ctx: Any) -> None:
        last = ValueStateDescriptor("last", "long")
        last.enable_time_to_live(
            StateTtlConfig.new_builder(Time.seconds(100)).use_event_time().build()
        )
        self.last = ctx.get_state(last)
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))
        self.texts = ctx.get_map_state(MapStateDescriptor("texts", "long", "string"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.last.update(row.n)
        self.all.add_all([row.n] * (500 if row.key == EVIL else 1))
        self.texts.put(row.n, "x" * 16 * row.n)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000 * row.n)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        pass


def rows(keys: int, second: int) -> list[Any]:
    at = datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=second)
    names = [EVIL, *(f"key {i}" for i in range(keys - 1))]
    return [(name, 1 + i % 90, at) for i, name in enumerate(names)]


def shown(df: Any) -> Any:
    return keystate.keyed(df.withWatermark("at", "0 seconds"), "key").process(
        Shown(), "x int", time_mode="event_time"
    )


@pytest.fixture(scope="module")
def checkpoint(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, stream_class: Callable[..., Any]
) -> str:
    """After three batches of rows: 60 keys, then the same at a later time, then two."""
    fed = stream_class(spark, tmp_path_factory.mktemp("page"), SCHEMA)
    fed.feed(rows(60, 0), rows(60, 50), rows(2, 80))
    fed.run(shown)
    return str(fed.checkpoint)


@pytest.fixture(scope="module")
def browser() -> Browser:
    found = Browser.find()
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    return found


def told(spark: Any, checkpoint: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = admin.inspect(checkpoint, spark=spark)
    statistics = bridge.statistics(spark, found)
    assert statistics is not None
    return found, statistics


def test_statistics(spark: Any, checkpoint: str) -> None:
    found, statistics = told(spark, checkpoint)
    (operator,) = statistics["operators"]
    states = {state["name"]: state for state in operator["states"]}
    assert set(states) == {"last", "all", "texts", "$timers"}
    counted = {state["name"]: state["entries"] for state in found["operators"][0]["states"]}
    for name, state in states.items():
        assert sum(state["groups"]) == counted[name] == state["sample"]["entries"], name
        assert state["sample"]["of"] == counted[name]
        assert sum(count for _, count in state["sample"]["sizes"]) == counted[name]
    # By hand: the keys are where their hash puts them.
    groups = [0] * len(states["last"]["groups"])
    names = [EVIL, *(f"key {i}" for i in range(59))]
    frame = spark.createDataFrame([(name,) for name in names], "key string")
    for (group,) in frame.selectExpr(f"pmod(hash(key), {len(groups)})").collect():
        groups[group] += 1
    assert states["last"]["groups"] == groups
    # What is largest, and how much it has.
    top = states["all"]["sample"]["largest"][0]
    assert (top["key"], top["elements"]) == (EVIL, 1500)
    assert top["bytes"] > 1500 * 8
    longest = states["texts"]["sample"]["largest"][0]
    assert longest["key"] == "key 58" and longest["elements"] == 1
    # The watermark is at 80 s: what was used at 50 s has lived for 30 of 100 s.
    ttl = states["last"]["sample"]["ttl"]
    assert ttl["millis"] == 100_000 and ttl["without"] == 0
    assert sum(ttl["ages"]) == 60 and ttl["ages"][-1] == 0
    assert ttl["ages"][0] == 2 and ttl["ages"][3] == 58
    due = states["$timers"]["sample"]["due"]
    assert sum(due) == counted["$timers"] and sum(due[2:]) == 0
    history = operator["history"]
    # The last one has no rows: it fires timers.
    assert [version["batch"] for version in history] == [0, 1, 2, 3]
    assert history[-1]["entries"] == counted
    assert history[-1]["bytes"] == sum(p["bytes"] for p in found["operators"][0]["partitions"])
    assert sum(run["bytes"] for run in operator["runs"]) == history[-1]["bytes"]
    assert all(version["took"] > 0 for version in history)


def test_a_sample_says_so(spark: Any, checkpoint: str) -> None:
    found, statistics = told(spark, checkpoint)
    (operator,) = statistics["operators"]
    for state in operator["states"]:
        state["sample"]["of"] = 10 * state["sample"]["entries"]
    notes = [chart.note for chart in charts(found["operators"][0], operator)]
    assert any("A sample: 60 of 600 entries" in note for note in notes)


def test_the_document(spark: Any, checkpoint: str) -> None:
    found, statistics = told(spark, checkpoint)
    page = document(found, statistics, ["[KEYSTATE_X] <lost>"])
    for title in (
        "Entries by state",
        "Bytes and time of batches",
        "Key groups",
        "Partitions, and what a rescale would move",
        "Largest keys of all",
        "Sizes of stored values",
        "Timers by when they are due",
        "Age of the entries of last",
        "Runs and files",
    ):
        assert f"<b>{title}</b>" in page
    assert "[KEYSTATE_X] &lt;lost&gt;" in page
    assert EVIL not in page
    script = charts_js()
    assert script is not None
    own = page.replace(script.read_text(), "")
    assert "src=" not in own and "http" not in own
    figures = json.loads(re.findall(r'id="figures">(.*?)</script>', own)[0])
    assert len(figures) == own.count('id="chart')
    live = document(found, statistics, None, live=True)
    assert '<script src="plotly.min.js">' in live and len(live) < len(own) + 1000


def test_without_plotly(spark: Any, checkpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(document.__globals__, "charts_js", lambda: None)
    page = document(*told(spark, checkpoint), [])
    assert "pip install 'keystate[page]'" in page and "<script" not in page
    assert page.count("<details open>") == page.count("<figure>") > 5


def test_before_the_first_batch(tmp_path: Path, spark: Any) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "page.html").write_text(admin.report(str(tmp_path), spark=spark).html())
    assert "Every file is as written" in (tmp_path / "page.html").read_text()


def test_spread() -> None:
    for groups, partitions in ((128, 3), (10, 10), (32768, 200), (7, 1)):
        starts = [group for group in range(groups) if group == 0 or partition_of(
            group, partitions, groups) != partition_of(group - 1, partitions, groups)]  # fmt: skip
        assert len(starts) == partitions
    assert by_partition([1, 2, 3, 4], 2) == [3, 7]
    assert skew([3, 7]) == 1.4 and skew([0, 0]) == 1
    assert moved([1, 1, 1, 1], 2, 2) == 0
    assert moved([1, 1, 1, 1], 1, 2) == 0.5
    assert moved([0, 0, 5, 0], 1, 2) == 1
    assert choices(3, 128)[:4] == [1, 2, 3, 4] and choices(3, 128)[-1] == 128


def test_in_a_notebook(spark: Any, checkpoint: str) -> None:
    found = admin.inspect(checkpoint, spark=spark)
    shown = found._repr_html_()
    assert "<td>texts</td>" in shown and shown.count("<rect") == 2
    assert "as written" in admin.verify(checkpoint, spark=spark)._repr_html_()
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("width", [500, 1280])  # Chromium makes no narrower window
def test_in_a_browser(
    width: int, spark: Any, checkpoint: str, browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(admin.report(checkpoint, spark=spark).html())
    dom = browser.dom(path.as_uri(), width)
    (figures,) = re.findall(r'id="figures">(.*?)</script>', dom)
    assert dom.count('class="main-svg"') >= len(json.loads(figures))
    assert "partitions: the largest has" in dom
    drawn = [float(n) for n in re.findall(r'<svg class="main-svg"[^>]*? width="([0-9.]+)"', dom)]
    assert max(drawn) < width


def test_keys_that_were_not_written_for_the_longest(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.shuffle.partitions": "2"})
    fed = stream(SCHEMA)
    fed.feed(rows(60, 0), rows(20, 10), rows(5, 20))
    fed.run(shown)
    found, statistics = told(spark, str(fed.checkpoint))
    (operator,) = statistics["operators"]
    assert operator["oldest"] == 0
    samples = {state["name"]: state["sample"]["untouched"] for state in operator["states"]}
    # Written in the first batch and in none after it.
    left = {f"key {i}" for i in range(19, 59)}
    for name in ("last", "all", "texts"):
        assert samples[name]["keys"] == len(left)
        assert len(samples[name]["first"]) == 10
        assert {key["key"] for key in samples[name]["first"]} <= left
    assert {key["time"] for key in samples["last"]["first"]} == {1704067200000}
    assert {key["time"] for key in samples["all"]["first"]} == {None}
    # The largest, where there are no times.
    assert {key["key"] for key in samples["texts"]["first"]} == {f"key {i}" for i in range(49, 59)}
    page = document(found, statistics, [])
    assert "Keys that were not written after batch 0, the oldest kept" in page
    assert "(2024-01-01 00:00)" in page
