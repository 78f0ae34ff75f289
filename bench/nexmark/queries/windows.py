"""q5, q7, q11, q12: bids counted in windows, and the highest one of each."""

from __future__ import annotations

import datetime
from typing import Any

import keystate
from keystate import (
    AggregateFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    Time,
    ValueStateDescriptor,
)
from keystate.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowFunction,
)
from pyspark.sql import DataFrame

from bench.nexmark.inputs import Inputs, in_time

PERIOD = 10_000  # ms
Q5 = "auction long, num long, endtime long"
Q7 = "auction long, bidder long, price long, dateTime timestamp, extra string"
Q11 = "bidder long, bid_count long, starttime long, endtime long"


class Count(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithTime(WindowFunction):
    """A key's count, in the last ms of its window."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        (count,) = inputs
        return [(key, count, datetime.datetime.fromtimestamp(window.max_timestamp() / 1000))]


class WithBounds(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        (count,) = inputs
        return [(key, count, window.start, window.end)]


class Hottest(KeyedProcessFunction):
    """q5: of the auctions of a window those with most bids, when all have come."""

    def open(self, ctx: Any) -> None:
        self.most = ctx.get_state(ValueStateDescriptor("most", "long", default=0))
        self.auctions = ctx.get_list_state(ListStateDescriptor("auctions", "long"))

    def process_element(self, counted: Any, ctx: Any) -> None:
        most = self.most.value()
        if most == 0:
            ctx.timer_service().register_event_time_timer(ctx.timestamp())
        if counted.num > most:
            self.most.update(counted.num)
            self.auctions.update([counted.auction])
        elif counted.num == most:
            self.auctions.add(counted.auction)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for auction in self.auctions:
            yield auction, self.most.value(), timestamp + 1
        self.most.clear()
        self.auctions.clear()


def q5(inputs: Inputs) -> DataFrame:
    windows = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2))
    counts = (
        keystate.keyed(in_time(inputs.bid).select("auction", "dateTime"), "auction")
        .window(windows)
        .aggregate(Count(), "long", "auction long, num long, dateTime timestamp", WithTime())
    )
    return keystate.keyed(counts, "dateTime").process(Hottest(), Q5)


class HighestBids(KeyedProcessFunction):
    """q7: the highest bid of a period, or several; the key is the period's end."""

    def open(self, ctx: Any) -> None:
        self.price = ctx.get_state(ValueStateDescriptor("price", "long", default=0))
        self.bids = ctx.get_list_state(ListStateDescriptor("bids", Q7))

    def process_element(self, bid: Any, ctx: Any) -> None:
        price = self.price.value()
        if bid.price < price:
            return
        if price == 0:
            ctx.timer_service().register_event_time_timer(bid.ends - 1)
        row = bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra
        if bid.price > price:
            self.price.update(bid.price)
            self.bids.update([row])
        else:
            self.bids.add(row)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from self.bids
        self.price.clear()
        self.bids.clear()


def q7(inputs: Inputs) -> DataFrame:
    ends = f"(unix_millis(dateTime) div {PERIOD} + 1) * {PERIOD} AS ends"
    bids = in_time(inputs.bid).selectExpr("auction", "bidder", "price", "dateTime", "extra", ends)
    return keystate.keyed(bids, "ends").process(HighestBids(), Q7)


def q11(inputs: Inputs) -> DataFrame:
    return (
        keystate.keyed(in_time(inputs.bid).select("bidder", "dateTime"), "bidder")
        .window(EventTimeSessionWindows.with_gap(Time.seconds(10)))
        .aggregate(Count(), "long", Q11, WithBounds())
    )


def q12(inputs: Inputs) -> DataFrame:
    return (
        keystate.keyed(inputs.bid.select("bidder"), "bidder")
        .window(TumblingProcessingTimeWindows.of(Time.seconds(10)))
        .aggregate(Count(), "long", Q11, WithBounds())
    )
