"""Queries in PyFlink: runs under a Python that has apache-flink, see systems.py.

Each query is a job with two subtasks, its functions in threads of Flink's JVM, RocksDB as state
backend, and no checkpoints. It reads CSV, which Flink has by itself; times are in ms.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyflink.common import Types
from pyflink.datastream import KeyedCoProcessFunction, KeyedProcessFunction
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflink.table import StreamTableEnvironment

from bench.children import serve
from bench.flink_average import environment, seconds_of

LOCAL = {"OR", "ID", "CA"}
CATEGORY = 10
TOP = 10
NUMBER, TEXT = Types.LONG(), Types.STRING()
COLUMNS = {
    "person": "id BIGINT, name STRING, city STRING, state STRING",
    "auction": "id BIGINT, seller BIGINT, category BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
    "dateTime BIGINT, extra STRING",
}
BID = [NUMBER, NUMBER, NUMBER, TEXT, TEXT, NUMBER, TEXT]


def cached(folder: Path, kind: str) -> Path:
    """The events of a kind as CSV, made once."""
    made = folder / f"{kind}.csv"
    if not made.exists():
        names = [column.split()[0] for column in COLUMNS[kind].split(", ")]
        table = pq.read_table(folder / kind, columns=names)
        for i, column in enumerate(table.schema):
            if pa.types.is_timestamp(column.type):
                millis = pc.cast(table[column.name], pa.timestamp("ms", column.type.tz), safe=False)
                table = table.set_column(i, column.name, millis.cast(pa.int64()))
        pa.csv.write_csv(table, made, pa.csv.WriteOptions(include_header=False))
    return made


class Job:
    """A query in the making."""

    def __init__(self, folder: Path, work: str) -> None:
        self._folder = folder
        self.env = environment("thread", "rocksdb", work)
        self._tables = StreamTableEnvironment.create(self.env)

    def read(self, kind: str) -> Any:
        columns = re.sub(r"(\w+) (\w+)", r"`\1` \2", COLUMNS[kind])
        self._tables.execute_sql(
            f"CREATE TEMPORARY TABLE {kind} ({columns}) WITH ('connector' = 'filesystem', "
            f"'path' = '{cached(self._folder, kind)}', 'format' = 'csv')"
        )
        return self._tables.to_data_stream(self._tables.from_path(kind))


class LocalAuctions(KeyedCoProcessFunction):
    def open(self, ctx: Any) -> None:
        self.seller = ctx.get_state(ValueStateDescriptor("seller", Types.PICKLED_BYTE_ARRAY()))
        self.waiting = ctx.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

    def process_element1(self, person: Any, ctx: Any) -> Iterator[Any]:
        seller = tuple(person)[1:]
        self.seller.update(seller)
        if seller[2] in LOCAL:
            for auction in self.waiting.get():
                yield (*seller, auction)
        self.waiting.clear()

    def process_element2(self, auction: Any, ctx: Any) -> Iterator[Any]:
        seller = self.seller.value()
        if seller is None:
            self.waiting.add(auction[0])
        elif seller[2] in LOCAL:
            yield (*seller, auction[0])


def q3(job: Job) -> Any:
    people, auctions = job.read("person"), job.read("auction")
    wanted = auctions.filter(lambda row: row[2] == CATEGORY)
    both = people.connect(wanted).key_by(lambda row: row[0], lambda row: row[1], NUMBER)
    return both.process(LocalAuctions(), Types.TUPLE([TEXT, TEXT, TEXT, NUMBER]))


class LastBid(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.time = ctx.get_state(ValueStateDescriptor("time", Types.LONG()))

    def process_element(self, bid: Any, ctx: Any) -> Iterator[Any]:
        last = self.time.value()
        if last is None or last <= bid[5]:
            self.time.update(bid[5])
            yield tuple(bid)


def q18(job: Job) -> Any:
    key = Types.TUPLE([NUMBER, NUMBER])
    bids = job.read("bid").key_by(lambda row: (row[1], row[0]), key_type=key)
    return bids.process(LastBid(), Types.TUPLE(BID))


class TopTen(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.ranking = ctx.get_state(ValueStateDescriptor("ranking", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        ranking, bid = self.ranking.value() or [], tuple(row)
        if len(ranking) == TOP and bid[2] <= ranking[-1][2]:
            return
        place = next((i for i, kept in enumerate(ranking) if kept[2] < bid[2]), len(ranking))
        ranking.insert(place, bid)
        del ranking[TOP:]
        self.ranking.update(ranking)
        yield from ((*kept, rank) for rank, kept in enumerate(ranking[place:], place + 1))


def q19(job: Job) -> Any:
    bids = job.read("bid").key_by(lambda row: row[0], key_type=NUMBER)
    return bids.process(TopTen(), Types.TUPLE([*BID, NUMBER]))


QUERIES: dict[str, Callable[[Job], Any]] = {query.__name__: query for query in (q3, q18, q19)}


def run(name: str, folder: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="keystate-bench") as work:
        job = Job(Path(folder), work)
        return {"seconds": seconds_of(job.env, QUERIES[name](job))}


if __name__ == "__main__":
    serve(lambda asked: run(asked["query"], asked["folder"]))
