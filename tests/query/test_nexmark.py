"""bench/nexmark: its events are as the reference says, its queries give what SQL gives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.children import Child
from bench.nexmark import spark_sql, stock
from bench.nexmark.check import check, check_peer
from bench.nexmark.events import Events
from bench.nexmark.expected import QUERIES
from bench.nexmark.queries import BY_COLUMNS, BY_ROWS
from bench.nexmark.systems import quix
from tests.stores.kafka_broker import kafka

SLOW = pytest.mark.skipif("SLOW" not in os.environ, reason="takes minutes; set SLOW=1")
#: A join, a window, timers and a list of the best: what is not SLOW of the queries by rows.
CHOSEN = ("q3", "q5", "q9", "q19")
WAYS = [
    pytest.param(
        query,
        way,
        id=f"{query.name}-{how}",
        marks=() if how == "rows" and query.name in CHOSEN else SLOW,
    )
    for how, ways in (
        ("rows", BY_ROWS),
        ("columns", BY_COLUMNS),
        ("sql", spark_sql.WAYS),
        ("stock", stock.WAYS),
    )
    for query in QUERIES
    if (way := ways.get(query.name)) is not None
]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Slow enough that auctions close and sessions end."""
    return Events(3000, rate=30, files=3).cached(tmp_path_factory.mktemp("nexmark"))


@pytest.mark.parametrize(("query", "way"), WAYS)
def test_queries(spark: Any, tmp_path: Path, events: Path, query: Any, way: Any) -> None:
    check(spark, query, way, events, tmp_path / "checkpoint")


@pytest.mark.skipif("QUIX" not in os.environ, reason="set QUIX to a Python that has quixstreams")
def test_quix_streams(spark: Any, tmp_path: Path, events: Path) -> None:
    queries = {query.name: query for query in QUERIES}
    with kafka(tmp_path) as broker:
        system = quix(os.environ["QUIX"], broker)
        process = Child(system.name, system.command)
        try:
            for name in system.shares:
                file = tmp_path / name
                process.ask({"query": name, "folder": str(events), "rows": str(file)})
                # A session is closed when an event would be late that could make it longer.
                behind = 10_002 if name == "q11" else 0
                check_peer(spark, queries[name], file, events, behind)
        finally:
            process.close()


def numbers(column: Any) -> Any:
    return column.to_numpy().astype("int64")


def test_events() -> None:
    """Counts, keys and hot keys of the generators of Beam and of the suite for Flink."""
    events = Events(100_000)
    tables = events.tables()
    assert {kind: table.num_rows for kind, table in tables.items()} == {
        "person": 2_000,
        "auction": 6_000,
        "bid": 92_000,
    }
    person, auction, bid = tables.values()
    assert numbers(person["id"]).tolist() == list(range(1000, 3000))
    assert numbers(auction["id"]).tolist() == list(range(1000, 7000))
    for table, mean in ((person, 200), (auction, 500)):
        texts = [table[f.name] for f in table.schema if str(f.type) == "string"]
        size = sum(pc.sum(pc.binary_length(text)).as_py() for text in texts) / table.num_rows
        fixed = 8 if table is person else 48
        assert abs(size + fixed - mean) < 0.02 * mean

    # Those of a moment: ten events have the same ms, in this order.
    number = events.numbers("bid")
    last_auction, last_person = number // 50 * 3 + 2, number // 50
    key = numbers(bid["auction"]) - 1000
    hot = key == last_auction // 100 * 100
    assert abs(hot.mean() - (1 / 2 + 1 / 2 / 111)) < 0.02
    assert ((key <= last_auction + 10) & ((key >= last_auction - 100) | hot)).all()
    assert (key[~hot] > last_auction[~hot]).any()  # bids before their auction
    bidder = numbers(bid["bidder"]) - 1000
    assert abs((bidder == last_person // 100 * 100 + 1).mean() - 3 / 4) < 0.02
    assert (bidder <= np.maximum(last_person + 10, last_person // 100 * 100 + 1)).all()
    number = events.numbers("auction")
    seller = numbers(auction["seller"]) - 1000
    assert abs((seller == number // 50 // 100 * 100).mean() - 3 / 4) < 0.02
    assert set(numbers(auction["category"])) == {10, 11, 12, 13, 14}
    assert (numbers(auction["reserve"]) > numbers(auction["initialBid"])).all()

    # Prices are spread over six decades alike; auctions last as long as a hundred of them take.
    decades = np.log10(numbers(bid["price"]) / 100)
    assert 0 <= decades.min() < 0.01 and 5.99 < decades.max() <= 6
    assert abs(decades.mean() - 3) < 0.05
    took = numbers(auction["expires"]) - numbers(auction["dateTime"])
    assert abs(took.mean() / 1000 - 166.6) < 5 and took.min() >= 1000
    times = numbers(bid["dateTime"])
    assert (np.diff(times) >= 0).all() and times[-1] - times[0] == 9_999_000


def test_the_same_events_each_time(tmp_path: Path) -> None:
    events = Events(1000, files=4)
    folder = events.cached(tmp_path)
    assert events.cached(tmp_path) == folder
    for kind, table in events.tables().items():
        parts = [pq.read_table(path) for path in sorted((folder / kind).iterdir())]
        assert [part.num_rows for part in parts] == [table.num_rows // 4] * 4
        assert pq.read_table(folder / kind).equals(table)
