"""q18, q19: the last bid of a bidder for an auction, and an auction's ten highest."""

from __future__ import annotations

from typing import Any

import keystate
import numpy as np
import pyarrow as pa
from keystate import (
    KeyedBatchFunction,
    KeyedProcessFunction,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame

from bench.nexmark.events import SCHEMAS
from bench.nexmark.inputs import Inputs

TOP = 10
Q18 = SCHEMAS["bid"]
Q19 = f"{Q18}, rank_number long"


class LastBid(KeyedProcessFunction):
    """q18: emits a bid unless a later one of its bidder is known."""

    def open(self, ctx: Any) -> None:
        self.time = ctx.get_state(ValueStateDescriptor("time", "timestamp"))

    def process_element(self, bid: Any, ctx: Any) -> Any:
        last = self.time.value()
        if last is not None and last > bid.dateTime:
            return None
        self.time.update(bid.dateTime)
        return [bid]


def q18(inputs: Inputs) -> DataFrame:
    return keystate.keyed(inputs.bid, "bidder", "auction").process(LastBid(), Q18)


class LastBids(KeyedBatchFunction):
    """q18 by columns: of many bids of a bidder for an auction it emits one."""

    def open(self, ctx: Any) -> None:
        self.time = ctx.get_state(ValueStateDescriptor("time", "timestamp"))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        key, time = batch.key_of_row.to_numpy(), _micros(batch.rows["dateTime"])
        order = np.lexsort((time, key))
        last = order[np.append(np.diff(key[order]) != 0, True)]  # one for each key, in their order
        kept = self.time.value()
        known = _micros(kept)
        newer = time[last] >= np.where(kept.is_null().to_numpy(False), time[last], known)
        now = np.where(newer, time[last], known)
        self.time.update(pa.array(now).cast(pa.timestamp("us", "UTC")))
        return batch.rows.take(pa.array(last[newer]))


def _micros(times: pa.Array) -> np.ndarray:
    return np.asarray(times.cast(pa.int64()).fill_null(0))


def q18_by_columns(inputs: Inputs) -> DataFrame:
    return keystate.keyed(inputs.bid, "bidder", "auction").process_batches(LastBids(), Q18)


class TopTen(KeyedProcessFunction):
    """q19: emits the bids whose rank is a new one; of equal bids the first is higher."""

    def open(self, ctx: Any) -> None:
        self.ranking = ctx.get_state(ValueStateDescriptor("ranking", f"array<struct<{Q18}>>"))

    def process_element(self, bid: Any, ctx: Any) -> Any:
        ranking = self.ranking.value() or []
        price = bid.price
        if len(ranking) == TOP and price <= ranking[-1].price:
            return None
        place = len(ranking)
        while place > 0 and ranking[place - 1].price < price:
            place -= 1
        ranking.insert(place, bid)
        del ranking[TOP:]
        self.ranking.update(ranking)
        return [(*kept, rank) for rank, kept in enumerate(ranking[place:], place + 1)]


def q19(inputs: Inputs) -> DataFrame:
    return keystate.keyed(inputs.bid, "auction").process(TopTen(), Q19)
