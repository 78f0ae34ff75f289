"""Some of the queries with Spark's transformWithStateInPandas: one of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.nexmark.inputs import Inputs, Way, in_time
from bench.nexmark.queries.joins import LOCAL, Q3, SELLER
from bench.nexmark.queries.rankings import Q18, Q19, TOP
from bench.nexmark.queries.windows import PERIOD, Q7, Q11
from bench.session import STOCK

SHARE = 0.05


class LocalAuctions(StatefulProcessor):
    """q3: it has one input, so both are made one."""

    def init(self, handle: Any) -> None:
        self.seller = handle.getValueState("seller", SELLER)
        self.waiting = handle.getListState("waiting", "id long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        df = pd.concat(list(rows))
        people, auctions = df[df["auction"].isna()], df[df["auction"].notna()]
        new = [int(auction) for auction in auctions["auction"]]
        if len(people):
            seller = tuple(people[["name", "city", "state"]].iloc[0])
            self.seller.update(seller)
            new = [*(row[0] for row in self.waiting.get()), *new]
            self.waiting.clear()
        else:
            seller = self.seller.get()
        if seller is None:
            self.waiting.appendList([(auction,) for auction in new])
        elif new and seller[2] in LOCAL:
            found = [(*seller, auction) for auction in new]
            yield pd.DataFrame(found, columns=["name", "city", "state", "id"])

    def close(self) -> None:
        pass


def q3(inputs: Inputs) -> DataFrame:
    people = inputs.person.selectExpr("id", "name", "city", "state", "CAST(NULL AS long) auction")
    auctions = inputs.auction.where("category = 10").selectExpr("seller AS id", "id AS auction")
    both = people.unionByName(auctions, allowMissingColumns=True)
    return both.groupBy("id").transformWithStateInPandas(LocalAuctions(), Q3, "Append", "None")


class HighestBids(StatefulProcessor):
    """q7: of several equal bids it has the first."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.best = handle.getValueState("best", Q7)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        best = self.best.get()
        if best is None:
            self.handle.registerTimer(key[0] - 1)
        for pdf in rows:
            row = pdf.loc[pdf["price"].idxmax()]
            if best is None or best[2] < row["price"]:
                at = row["dateTime"].to_pydatetime()
                best = int(row["auction"]), int(row["bidder"]), int(row["price"]), at, row["extra"]
        self.best.update(best)
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        names = ["auction", "bidder", "price", "dateTime", "extra"]
        yield pd.DataFrame([tuple(self.best.get())], columns=names)
        self.best.clear()

    def close(self) -> None:
        pass


def q7(inputs: Inputs) -> DataFrame:
    ends = f"(unix_millis(dateTime) div {PERIOD} + 1) * {PERIOD} AS ends"
    bids = in_time(inputs.bid).selectExpr("auction", "bidder", "price", "dateTime", "extra", ends)
    return bids.groupBy("ends").transformWithStateInPandas(HighestBids(), Q7, "Append", "EventTime")


class Sessions(StatefulProcessor):
    """q11, for bids that come in order from one micro-batch to the next."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.session = handle.getValueState("session", "count long, first long, last long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        times = sorted(time for pdf in rows for time in pdf["at"].tolist())
        kept = self.session.get()
        ended = []
        if kept is None:
            count, first, last = 0, times[0], times[0]
        else:
            count, first, last = kept
            self.handle.deleteTimer(last + PERIOD - 1)
        for time in times:
            if time - last > PERIOD:
                ended.append((key[0], count, first, last + PERIOD))
                count, first = 0, time
            count, last = count + 1, time
        self.session.update((count, first, last))
        self.handle.registerTimer(last + PERIOD - 1)
        if ended:
            yield _counts(ended)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        count, first, last = self.session.get()
        self.session.clear()
        yield _counts([(key[0], count, first, last + PERIOD)])

    def close(self) -> None:
        pass


def _counts(rows: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["bidder", "bid_count", "starttime", "endtime"])


def q11(inputs: Inputs) -> DataFrame:
    bids = in_time(inputs.bid).selectExpr("bidder", "unix_millis(dateTime) AS at", "dateTime")
    return bids.groupBy("bidder").transformWithStateInPandas(Sessions(), Q11, "Append", "EventTime")


class LastBid(StatefulProcessor):
    """q18: one row for a key and micro-batch."""

    def init(self, handle: Any) -> None:
        self.time = handle.getValueState("time", "micros long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        df = pd.concat(list(rows))
        last = df.sort_values("dateTime", kind="stable").tail(1)
        micros = last["dateTime"].iloc[0].value
        kept = self.time.get()
        if kept is None or kept[0] <= micros:
            self.time.update((micros,))
            yield last

    def close(self) -> None:
        pass


def q18(inputs: Inputs) -> DataFrame:
    return inputs.bid.groupBy("bidder", "auction").transformWithStateInPandas(
        LastBid(), Q18, "Append", "None"
    )


class TopTen(StatefulProcessor):
    """q19: emits the ranks that changed."""

    def init(self, handle: Any) -> None:
        self.ranking = handle.getListState("ranking", Q18)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        names = [name.split()[0] for name in Q18.split(", ")]
        kept = [tuple(row) for row in self.ranking.get()]
        new = pd.concat(list(rows))[names]
        # Timestamps in pandas are not what a state takes.
        times = [time.to_pydatetime() for time in new["dateTime"]]
        bids = [(*row[:5], at, row[6]) for row, at in zip(new.itertuples(index=False), times)]
        ranking = sorted([*kept, *bids], key=lambda row: -row[2])[:TOP]
        changed = [
            (*row, rank)
            for rank, row in enumerate(ranking, 1)
            if rank > len(kept) or row != kept[rank - 1]
        ]
        if changed:
            self.ranking.put(ranking)
            yield pd.DataFrame(changed, columns=[*names, "rank_number"])

    def close(self) -> None:
        pass


def q19(inputs: Inputs) -> DataFrame:
    return inputs.bid.groupBy("auction").transformWithStateInPandas(TopTen(), Q19, "Append", "None")


WAYS = {
    query.__name__: Way(query, settings=STOCK, share=SHARE, picks=query is q7)
    for query in (q3, q7, q11, q18, q19)
}
