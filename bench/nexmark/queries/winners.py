"""q4, q6, q9: the winning bid of each auction, and averages of what auctions sold for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keystate
from keystate import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame

from bench.nexmark.inputs import Inputs, in_time
from bench.nexmark.queries.joins import BID, ITEM

LAST_AUCTIONS = 10
Q4 = "category long, average double"
Q6 = "seller long, average double"
Q9 = f"id long, {ITEM}, {BID}"


class WinningBids(KeyedCoProcessFunction):
    """Emits for an auction and its highest bid when the auction is closed.

    The rows of the first input have `begins` and `closes`, those of the second `at` and `price`;
    times are in ms. A bid that comes before its auction waits for it, until none can come any more.

    Args:
        auction, bid: the types of the rows.
        result: what is emitted for the two.
    """

    def __init__(self, auction: str, bid: str, result: Callable[[Any, Any], Any]) -> None:
        self.auction_type = auction
        self.bid_type = bid
        self.result = result

    def open(self, ctx: Any) -> None:
        self.auction = ctx.get_state(ValueStateDescriptor("auction", self.auction_type))
        self.best = ctx.get_state(ValueStateDescriptor("best", self.bid_type))
        self.early = ctx.get_list_state(ListStateDescriptor("early", self.bid_type))

    def process_element1(self, auction: Any, ctx: Any) -> None:
        self.auction.update(auction)
        ctx.timer_service().register_event_time_timer(auction.closes)
        for bid in self.early:
            self.offer(auction, bid)
        self.early.clear()

    def process_element2(self, bid: Any, ctx: Any) -> None:
        auction = self.auction.value()
        if auction is not None:
            self.offer(auction, bid)
        else:
            self.early.add(bid)
            # When the watermark has passed the bid, an auction that is still to come begins later.
            ctx.timer_service().register_event_time_timer(bid.at)

    def offer(self, auction: Any, bid: Any) -> None:
        if auction.begins <= bid.at <= auction.closes:
            best = self.best.value()
            if best is None or (bid.price, -bid.at) > (best.price, -best.at):
                self.best.update(bid)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        auction = self.auction.value()
        if auction is None:
            self.early.update([bid for bid in self.early if bid.at > timestamp])
        elif auction.closes <= timestamp:
            best = self.best.value()
            self.auction.clear()
            self.best.clear()
            if best is not None:
                yield self.result(auction, best)


def _winners(
    inputs: Inputs, auction: list[str], bid: list[str], result: Callable[[Any, Any], Any], out: str
) -> DataFrame:
    """Of these columns of auctions and bids."""
    auctions = in_time(inputs.auction).selectExpr(
        "id", "unix_millis(dateTime) AS begins", "unix_millis(expires) AS closes", *auction
    )
    bids = in_time(inputs.bid).selectExpr("auction", "price", "unix_millis(dateTime) AS at", *bid)
    function = WinningBids(_ddl(auctions), _ddl(bids), result)
    connected = keystate.keyed(auctions, "id").connect(keystate.keyed(bids, "auction"))
    return connected.process(function, out)


def _ddl(df: DataFrame) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in df.dtypes)


def _sold(inputs: Inputs, by: str) -> DataFrame:
    """What each auction sold for."""
    return _winners(
        inputs,
        [by, "dateTime"],
        ["dateTime"],
        lambda auction, bid: (auction[3], auction.closes, auction.id, bid.price),
        f"{by} long, closes long, id long, price long",
    )


class Average(KeyedProcessFunction):
    """q4: the average price so far."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "n long, total long", default=(0, 0)))

    def process_element(self, sold: Any, ctx: Any) -> Any:
        n, total = self.sum.value()
        n, total = n + 1, total + sold.price
        self.sum.update((n, total))
        yield ctx.get_current_key(), total / n


class AverageOfLast(KeyedProcessFunction):
    """q6: the average price of the last ten."""

    def open(self, ctx: Any) -> None:
        self.prices = ctx.get_state(ValueStateDescriptor("prices", "array<long>", default=[]))

    def process_element(self, sold: Any, ctx: Any) -> Any:
        prices = [*self.prices.value(), sold.price][-LAST_AUCTIONS:]
        self.prices.update(prices)
        yield ctx.get_current_key(), sum(prices) / len(prices)


# The winners of a micro-batch come in any order; those of the next one have all closed later.


def q4(inputs: Inputs) -> DataFrame:
    sold = keystate.keyed(_sold(inputs, "category"), "category", order_by=["closes", "id"])
    return sold.process(Average(), Q4)


def q6(inputs: Inputs) -> DataFrame:
    sold = keystate.keyed(_sold(inputs, "seller"), "seller", order_by=["closes", "id"])
    return sold.process(AverageOfLast(), Q6)


def q9(inputs: Inputs) -> DataFrame:
    item = ["itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller"]
    return _winners(
        inputs,
        [*item, "category", "extra"],
        ["bidder", "channel", "url", "dateTime", "extra"],
        # Without `begins` and `closes`; bids have their columns in the reference's order.
        lambda auction, bid: (
            auction.id,
            *auction[3:],
            bid.auction,
            bid.bidder,
            bid.price,
            *bid[4:],
        ),
        Q9,
    )
