"""Queries in Quix Streams: runs under a Python that has quixstreams and pyarrow, see systems.py.

Its state is that of a message's key. So the events are in topics of their own for each query, by
the key that the query needs, as JSON with the columns that it reads: it need not send them through
Kafka a second time. Each topic has one partition. Each query is a process of its own, so it uses
one core. States are in RocksDB and in a changelog topic, as by default.

The topics are full before a query starts. The clock runs from the first message on until the last
one is committed and the consumer has left its group; joining the group does not count.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from quixstreams import Application
from quixstreams.dataframe.windows.aggregations import Count

from bench.children import serve

LOCAL = {"OR", "ID", "CA"}
CATEGORY = 10
TOP = 10
GAP = 10_000
COMMIT_SECONDS = 1.0
# Of two topics it reads so many messages, or for so many seconds, and then from where it stopped:
# with its defaults, 10,000 and 1, q20 took six times as long, nearly all of it waiting.
BUFFER, POLL_SECONDS = 50_000, 0.02
BID = ["auction", "bidder", "price", "channel", "url", "dateTime", "extra"]
ITEM = ["itemName", "description", "initialBid", "reserve", "dateTime", "expires"]
ITEM += ["seller", "category", "extra"]

Rows = dict[str, Any]


class Query:
    """A query.

    Attributes:
        inputs: the columns that it reads of each kind of event, and those that are its key.
        build: makes the results from the messages, by kind of event.
    """

    def __init__(
        self,
        inputs: dict[str, tuple[list[str], list[str]]],
        build: Callable[[Rows], Any],
    ) -> None:
        self.inputs = inputs
        self.build = build


def local_auctions(row: Rows, state: Any) -> list[Rows]:
    if "state" in row:
        state.set("seller", row)
        waiting = state.get("waiting", [])
        state.delete("waiting")
        return [{**row, "id": auction} for auction in waiting] if row["state"] in LOCAL else []
    if row["category"] != CATEGORY:
        return []
    seller = state.get("seller")
    if seller is None:
        state.set("waiting", [*state.get("waiting", []), row["id"]])
        return []
    return [{**seller, "id": row["id"]}] if seller["state"] in LOCAL else []


def q3(streams: Rows) -> Any:
    both = streams["person"].concat(streams["auction"])
    return both.apply(local_auctions, stateful=True, expand=True)


def session(value: Rows, key: bytes, timestamp: int, headers: Any) -> Rows:
    # A session ends right after its last event here, and after the gap in NEXMark.
    end = value["end"] - 1 + GAP
    return {
        "bidder": int(key),
        "bid_count": value["count"],
        "starttime": value["start"],
        "endtime": end,
    }


def q11(streams: Rows) -> Any:
    # Without the strategy, a session waits for its bidder's next bid.
    sessions = streams["bid"].session_window(GAP).agg(count=Count())
    return sessions.final(closing_strategy="partition").apply(session, metadata=True)


def last_bid(row: Rows, state: Any) -> list[Rows]:
    last = state.get("time")
    if last is not None and last > row["dateTime"]:
        return []
    state.set("time", row["dateTime"])
    return [row]


def q18(streams: Rows) -> Any:
    return streams["bid"].apply(last_bid, stateful=True, expand=True)


def top_ten(row: Rows, state: Any) -> list[Rows]:
    ranking = state.get("ranking", [])
    if len(ranking) == TOP and row["price"] <= ranking[-1]["price"]:
        return []
    lower = (i for i, kept in enumerate(ranking) if kept["price"] < row["price"])
    place = next(lower, len(ranking))
    ranking.insert(place, row)
    del ranking[TOP:]
    state.set("ranking", ranking)
    return [{**kept, "rank_number": rank} for rank, kept in enumerate(ranking[place:], place + 1)]


def q19(streams: Rows) -> Any:
    return streams["bid"].apply(top_ten, stateful=True, expand=True)


def with_auction(row: Rows, state: Any) -> list[Rows]:
    if "itemName" in row:
        wanted = row["category"] == CATEGORY
        state.set("auction", row if wanted else {})
        waiting = state.get("waiting", [])
        state.delete("waiting")
        return [joined(bid, row) for bid in waiting] if wanted else []
    auction = state.get("auction")
    if auction is None:
        state.set("waiting", [*state.get("waiting", []), row])
        return []
    return [joined(row, auction)] if auction else []


def joined(bid: Rows, auction: Rows) -> Rows:
    return {
        **auction,
        **bid,
        "bid_dateTime": bid["dateTime"],
        "bid_extra": bid["extra"],
        "auction_dateTime": auction["dateTime"],
        "auction_extra": auction["extra"],
    }


def q20(streams: Rows) -> Any:
    both = streams["auction"].concat(streams["bid"])
    return both.apply(with_auction, stateful=True, expand=True)


QUERIES = {
    "q3": Query(
        {
            "person": (["name", "city", "state"], ["id"]),
            "auction": (["id", "category"], ["seller"]),
        },
        q3,
    ),
    "q11": Query({"bid": (["dateTime"], ["bidder"])}, q11),
    "q18": Query({"bid": (BID, ["bidder", "auction"])}, q18),
    "q19": Query({"bid": (BID, ["auction"])}, q19),
    "q20": Query({"auction": (ITEM, ["id"]), "bid": (BID, ["auction"])}, q20),
}


def messages(folder: Path, columns: list[str], key: list[str]) -> Iterator[tuple[str, Rows, int]]:
    """Key, value and time in ms of each event of a kind."""
    names = dict.fromkeys([*columns, *key, "dateTime"])
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path, columns=[*names])
        for i, column in enumerate(table.schema):
            if pa.types.is_timestamp(column.type):
                millis = table[column.name].cast(pa.timestamp("ms", column.type.tz))
                table = table.set_column(i, column.name, millis.cast(pa.int64()))
        for row in table.to_pylist():
            name = " ".join(str(row[part]) for part in key)
            yield name, {column: row[column] for column in columns}, row["dateTime"]


def fill(address: str, name: str, folder: str) -> dict[str, tuple[str, int]]:
    """A new topic for each kind of event that a query reads, and how many messages it has."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 100, "log_level": 0})
    admin = AdminClient({"bootstrap.servers": address})
    topics = {}
    for kind, (columns, key) in QUERIES[name].inputs.items():
        topic = f"{name}-{kind}-{uuid.uuid4()}"
        # The events are old: without this, the broker would delete them.
        new = NewTopic(topic, 1, 1, config={"retention.ms": "-1"})
        admin.create_topics([new])[topic].result()
        count = 0
        for by, value, millis in messages(Path(folder) / kind, columns, key):
            producer.produce(topic, json.dumps(value), by, timestamp=millis)
            count += 1
            if count % 10_000 == 0:
                producer.flush()
        producer.flush()
        topics[kind] = topic, count
    return topics


def work(
    address: str, name: str, topics: dict[str, tuple[str, int]], rows: str | None, answer: Any
) -> None:
    """The process of a query, from an empty state on."""
    left = sum(count for _, count in topics.values())
    started = 0.0
    emitted = 0

    def note_start(value: Any) -> None:
        nonlocal started
        started = started or time.perf_counter()

    def note_end(topic: str, partition: int, offset: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            app.stop()

    with tempfile.TemporaryDirectory(prefix="keystate-bench") as folder:
        app = Application(
            address,
            consumer_group=str(uuid.uuid4()),
            auto_offset_reset="earliest",
            commit_interval=COMMIT_SECONDS,
            consumer_poll_timeout=POLL_SECONDS,
            max_partition_buffer_size=BUFFER,
            state_dir=folder,
            on_message_processed=note_end,
            loglevel="WARNING",
        )
        streams = {
            kind: app.dataframe(app.topic(topic)).update(note_start)
            for kind, (topic, _) in topics.items()
        }
        results = QUERIES[name].build(streams)
        if rows is None:

            def count(value: Any) -> None:
                nonlocal emitted
                emitted += 1

            results.update(count)
            app.run()
        else:
            with Path(rows).open("w") as file:
                results.update(lambda value: print(json.dumps(value), file=file))
                app.run()
        answer.put({"seconds": time.perf_counter() - started, "emitted": emitted, "cores": 1})


class Queries:
    """Runs queries on a broker; one over the same events again reads the same topics."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._topics: dict[tuple[str, str], dict[str, tuple[str, int]]] = {}

    def run(self, asked: dict[str, str]) -> dict[str, Any]:
        """The seconds of a process of its own, whose memory is gone afterwards.

        Args:
            asked: with `rows` too, what the query emits is written into that file.
        """
        name, folder = asked["query"], asked["folder"]
        if (name, folder) not in self._topics:
            self._topics[name, folder] = fill(self._address, name, folder)
        # A fork would have the threads of the producer half.
        spawning = multiprocessing.get_context("spawn")
        answer: Any = spawning.SimpleQueue()
        arguments = (self._address, name, self._topics[name, folder], asked.get("rows"), answer)
        process = spawning.Process(target=work, args=arguments)
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{name} failed")
        found: dict[str, Any] = answer.get()
        return found


if __name__ == "__main__":
    queries = Queries(sys.argv[1])
    serve(queries.run)
