"""Queries in Bytewax: runs under a Python that has bytewax and pyarrow, see systems.py.

Each query is a process with one worker, so it uses one core and moves nothing between workers.
States go to a recovery store. The whole state of a key is one Python object.
"""

from __future__ import annotations

import datetime
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bytewax.operators as op
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import windowing
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import run_main

from bench.children import serve

ROWS = 1000  # of a batch
LOCAL = {"OR", "ID", "CA"}
CATEGORY = 10
TOP = 10
EPOCH = datetime.timedelta(seconds=1)


class Files(StatefulSourcePartition):
    """Rows of the files of one kind of event, as tuples."""

    def __init__(self, folder: Path, columns: list[str], done: int) -> None:
        self.done = done
        self.batches = self._read(folder, columns)

    def _read(self, folder: Path, columns: list[str]) -> Iterator[list[Any]]:
        for path in sorted((folder).glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(ROWS, columns=columns):
                yield list(zip(*(batch[name].to_pylist() for name in columns)))

    def next_batch(self) -> list[Any]:
        self.done += 1
        return next(self.batches)

    def snapshot(self) -> int:
        return self.done


class Events(FixedPartitionedSource):
    def __init__(self, folder: str, kind: str, columns: list[str]) -> None:
        self.folder = Path(folder)
        self.kind = kind
        self.columns = columns

    def list_parts(self) -> list[str]:
        return [self.kind]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Files:
        return Files(self.folder / self.kind, self.columns, resume_state or 0)


class Counted(StatelessSinkPartition):
    def __init__(self, count: Any) -> None:
        self.count = count
        self.mine = 0

    def write_batch(self, items: list[Any]) -> None:
        self.mine += len(items)

    def close(self) -> None:
        with self.count.get_lock():
            self.count.value += self.mine


class Nowhere(DynamicSink):
    """Counts the results."""

    def __init__(self, count: Any) -> None:
        self.count = count

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Counted:
        return Counted(self.count)


def _keyed(flow: Dataflow, folder: str, kind: str, columns: list[str], tag: Any = None) -> Any:
    """Rows by their first column, each with a tag."""
    rows = op.input(kind, flow, Events(folder, kind, columns))
    return op.map(f"{kind} by key", rows, lambda row: (str(row[0]), (tag, row)))


def local_auctions(state: Any, value: Any) -> Any:
    tag, row = value
    seller, waiting = state or (None, [])
    if tag == "person":
        found = [(*row[1:], auction) for auction in waiting] if row[3] in LOCAL else []
        return (row[1:], []), found
    if seller is None:
        return (None, [*waiting, row[1]]), []
    return state, [(*seller, row[1])] if seller[2] in LOCAL else []


def q3(flow: Dataflow, folder: str) -> Any:
    people = _keyed(flow, folder, "person", ["id", "name", "city", "state"], "person")
    auctions = op.input("auction", flow, Events(folder, "auction", ["seller", "id", "category"]))
    wanted = op.filter("category", auctions, lambda row: row[2] == CATEGORY)
    keyed = op.map("by seller", wanted, lambda row: (str(row[0]), ("auction", row)))
    return op.stateful_flat_map("join", op.merge("both", people, keyed), local_auctions)


def q11(flow: Dataflow, folder: str) -> Any:
    bids = op.input("bid", flow, Events(folder, "bid", ["bidder", "dateTime"]))
    clock = windowing.EventClock(
        lambda row: row[1].replace(tzinfo=datetime.timezone.utc),  # it takes no other UTC
        datetime.timedelta(seconds=4),
    )
    sessions = windowing.SessionWindower(datetime.timedelta(seconds=10))
    return windowing.count_window("sessions", bids, clock, sessions, lambda row: str(row[0])).down


def last_bid(state: Any, value: Any) -> Any:
    row = value[1]
    if state is not None and state > row[5]:
        return state, []
    return row[5], [row]


BID = ["auction", "bidder", "price", "channel", "url", "dateTime", "extra"]


def q18(flow: Dataflow, folder: str) -> Any:
    bids = op.input("bid", flow, Events(folder, "bid", BID))
    keyed = op.map("by key", bids, lambda row: (f"{row[1]} {row[0]}", (None, row)))
    return op.stateful_flat_map("last", keyed, last_bid)


def top_ten(state: Any, value: Any) -> Any:
    ranking, row = state or [], value[1]
    if len(ranking) == TOP and row[2] <= ranking[-1][2]:
        return ranking, []
    place = next((i for i, kept in enumerate(ranking) if kept[2] < row[2]), len(ranking))
    ranking.insert(place, row)
    del ranking[TOP:]
    return ranking, [(*kept, rank) for rank, kept in enumerate(ranking[place:], place + 1)]


def q19(flow: Dataflow, folder: str) -> Any:
    return op.stateful_flat_map("top", _keyed(flow, folder, "bid", BID), top_ten)


def with_auction(state: Any, value: Any) -> Any:
    tag, row = value
    auction, waiting = state or (None, [])
    if tag == "auction":
        wanted = row[8] == CATEGORY
        item = row[1:] if wanted else ()
        return (item, []), [(*bid, *item) for bid in waiting] if wanted else []
    if auction is None:
        return (None, [*waiting, row]), []
    return state, [(*row, *auction)] if auction else []


def q20(flow: Dataflow, folder: str) -> Any:
    item = ["id", "itemName", "description", "initialBid", "reserve", "dateTime", "expires"]
    item += ["seller", "category", "extra"]
    auctions = _keyed(flow, folder, "auction", item, "auction")
    bids = _keyed(flow, folder, "bid", BID, "bid")
    return op.stateful_flat_map("join", op.merge("both", auctions, bids), with_auction)


QUERIES: dict[str, Callable[[Dataflow, str], Any]] = {
    query.__name__: query for query in (q3, q11, q18, q19, q20)
}


def work(name: str, folder: str, store: str, count: Any) -> None:
    """The process of a query."""
    flow = Dataflow(name)
    op.output("out", QUERIES[name](flow, folder), Nowhere(count))
    recovery = RecoveryConfig(Path(store))
    run_main(flow, epoch_interval=EPOCH, recovery_config=recovery)


def run(name: str, folder: str) -> dict[str, Any]:
    """Seconds of a process of its own, whose memory is gone afterwards."""
    count = multiprocessing.Value("q", 0)
    with tempfile.TemporaryDirectory(prefix="keystate-bench") as store:
        started = time.perf_counter()
        init_db_dir(Path(store), 1)
        process = multiprocessing.Process(target=work, args=(name, folder, store, count))
        process.start()
        process.join()
        seconds = time.perf_counter() - started
    if process.exitcode:
        sys.exit(f"{name} failed")
    return {"seconds": seconds, "emitted": count.value, "cores": 1}


if __name__ == "__main__":
    serve(lambda asked: run(asked["query"], asked["folder"]))
