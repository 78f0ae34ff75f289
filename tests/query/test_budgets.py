"""Limits of state: when they warn and when they end a query, and how fast state grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

from tests.shapes import SHAPES, Shape, shape_name

MAX_ENTRIES = "spark.keystate.state.maxEntries"
MAX_BYTES = "spark.keystate.state.maxBytes"
ON_LIMIT = "spark.keystate.state.onLimit"
WARN_SHARE = "spark.keystate.state.warnShare"


class Visits(KeyedProcessFunction):
    """An entry of a map for each page, and a count."""

    limit: int | None = None

    def open(self, ctx: Any) -> None:
        pages = MapStateDescriptor("pages", "long", "long")
        if self.limit is not None:
            pages.set_max_entries(self.limit)
        self.pages = ctx.get_map_state(pages)
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.pages[row.page] = 1
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


class Limited(Visits):
    limit = 6


def visits(fn: Any) -> Callable[[Any], Any]:
    return lambda df: keystate.keyed(df, "key").process(fn, "key string, count long")


def committed(fed: Any) -> list[int]:
    return sorted(int(path.name) for path in Path(fed.checkpoint, "commits").glob("[0-9]*"))


def rows(key: str, pages: int, first: int = 0) -> list[tuple[str, int]]:
    return [(key, page) for page in range(first, first + pages)]


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
@pytest.mark.parametrize(("checkpoint_format", "backend"), [("1", "hashmap"), ("2", "rocksdb")])
def test_a_state_above_its_limit(
    checkpoint_format: str,
    backend: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    shape: Shape,
) -> None:
    """The batch fails, again and again, and runs once the limit allows it."""

    def limited(df: Any) -> Any:
        return shape(df, visits(Limited())(df))

    settings(**{ON_LIMIT: "fail", FORMAT_KEY: checkpoint_format, "spark.keystate.backend": backend})
    fed = stream("key string, page long")
    fed.feed([*rows("a", 4), *rows("b", 2)])
    fed.run(limited)
    fed.feed(rows("c", 1))
    for _ in range(2):
        with pytest.raises(StreamingQueryException) as raised:
            fed.run(limited)
        message = str(raised.value)
        assert "KEYSTATE_STATE_LIMIT" in message and "State 'pages'" in message
        assert "7 of at most 6 entries" in message and "a (4), b (2), c (1)" in message
        assert committed(fed) == [0]
    settings(**{ON_LIMIT: "warn"})
    assert [tuple(row) for row in fed.run(limited)] == [("c", 1)]
    assert committed(fed) == [0, 1]
    told = fed.progress[-1].stateOperators[0].customMetrics
    assert told["keystateLimitUsedPercent"] == 7 * 100 // 6


@pytest.mark.parametrize(
    ("key", "limit", "enough"), [(MAX_ENTRIES, "5", "1000"), (MAX_BYTES, "300", "1m")]
)
def test_an_operator_above_its_limit(
    key: str,
    limit: str,
    enough: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{ON_LIMIT: "fail", key: limit})
    fed = stream("key string, page long")
    fed.feed(rows("a", 2))
    fed.run(visits(Visits()))
    fed.feed(rows("b", 50))
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_STATE_LIMIT.*b \(50\)"):
        fed.run(visits(Visits()))
    settings(**{key: enough})
    assert len(fed.run(visits(Visits()))) == 50


@pytest.fixture
def warnings(spark: Any) -> Iterator[Callable[[], list[str]]]:
    """What the driver's log has of limits."""
    log4j = spark._jvm.org.apache.logging.log4j
    logger = log4j.LogManager.getLogger("org.apache.spark.sql.keystate.size.SizeWatch")
    level, writer = logger.getLevel(), spark._jvm.java.io.StringWriter()
    appender = log4j.core.appender.WriterAppender.createAppender(
        None, None, writer, "limits", False, True
    )
    appender.start()
    logger.addAppender(appender)
    logger.setLevel(log4j.Level.WARN)
    yield lambda: writer.toString().splitlines()
    logger.removeAppender(appender)
    logger.setLevel(level)
    appender.stop()


def test_a_warning_from_a_share_on(
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    warnings: Callable[[], list[str]],
) -> None:
    """Once for each start, and not before the share is reached."""
    settings(**{MAX_ENTRIES: "20", WARN_SHARE: "0.5"})
    fed = stream("key string, page long")
    # A page is an entry, and so is a key's count.
    fed.feed(rows("a", 4))
    fed.run(visits(Visits()))
    assert warnings() == []
    for starts in (1, 2):
        fed.feed(rows("a", 6, 4), rows("a", 7, 4))
        fed.run(visits(Visits()))
        told = warnings()
        assert len(told) == starts, told
        assert f"of at most 20 entries ({MAX_ENTRIES})" in told[-1]
        assert "docs/running/budgets.md" in told[-1]


def test_a_wrong_limit(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{MAX_BYTES: "many"})
    fed = stream("key string, page long")
    fed.feed(rows("a", 1))
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_BAD_SETTING.*'500m'"):
        fed.run(visits(Visits()))
    with pytest.raises(ValueError, match="1 or more"):
        MapStateDescriptor("pages", "long", "long").set_max_entries(0)


def test_the_page_shows_what_only_grows(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    fed = stream("key string, page long")
    fed.feed(*(rows("a", 3, first) for first in range(0, 12, 3)))
    fed.run(visits(Visits()))
    settings(**{MAX_ENTRIES: "1000"})
    page = tmp_path / "page.html"
    page.write_text(admin.report(str(fed.checkpoint), spark=spark).html())
    text = page.read_text()
    assert "Growth in the batches 1 to 3" in text  # of those that are kept, the second half
    assert "it only grows: nothing was removed" in text
    assert "the limit of 1,000 is reached in" in text
