"""q3, q8, q20: events joined with what is known of the person or the auction."""

from __future__ import annotations

from typing import Any

import keystate
from keystate import KeyedCoProcessFunction, ListStateDescriptor, ValueStateDescriptor
from pyspark.sql import DataFrame

from bench.nexmark.inputs import Inputs, in_time

LOCAL = {"OR", "ID", "CA"}
CATEGORY = 10
WINDOW = 10_000  # ms

SELLER = "name string, city string, state string"
Q3 = f"{SELLER}, id long"
ITEM = (
    "itemName string, description string, initialBid long, reserve long, "
    "auction_dateTime timestamp, expires timestamp, seller long, category long, "
    "auction_extra string"
)
BID = (
    "auction long, bidder long, price long, channel string, url string, "
    "bid_dateTime timestamp, bid_extra string"
)
Q8 = "id long, name string, stime long"


class LocalAuctions(KeyedCoProcessFunction):
    """q3: the auctions of local sellers. Those that come before their seller wait for him."""

    def open(self, ctx: Any) -> None:
        self.seller = ctx.get_state(ValueStateDescriptor("seller", SELLER))
        self.waiting = ctx.get_list_state(ListStateDescriptor("waiting", "long"))

    def process_element1(self, person: Any, ctx: Any) -> Any:
        seller = person.name, person.city, person.state
        self.seller.update(seller)
        if person.state in LOCAL:
            for auction in self.waiting:
                yield *seller, auction
        self.waiting.clear()

    def process_element2(self, auction: Any, ctx: Any) -> Any:
        seller = self.seller.value()
        if seller is None:
            self.waiting.add(auction.id)
        elif seller.state in LOCAL:
            return [(*seller, auction.id)]
        return None


def q3(inputs: Inputs) -> DataFrame:
    people = inputs.person.select("id", "name", "city", "state")
    auctions = inputs.auction.where(f"category = {CATEGORY}").select("seller", "id")
    return (
        keystate.keyed(people, "id")
        .connect(keystate.keyed(auctions, "seller"))
        .process(LocalAuctions(), Q3)
    )


class BidsWithAuction(KeyedCoProcessFunction):
    """q20: each bid with its auction, of one category. Bids before their auction wait for it."""

    def open(self, ctx: Any) -> None:
        # Bids for other auctions need no more of them than that.
        self.category = ctx.get_state(ValueStateDescriptor("category", "long"))
        self.auction = ctx.get_state(ValueStateDescriptor("auction", ITEM))
        self.waiting = ctx.get_list_state(ListStateDescriptor("waiting", BID))

    def process_element1(self, auction: Any, ctx: Any) -> Any:
        self.category.update(auction.category)
        if auction.category == CATEGORY:
            item = tuple(auction)[1:]
            self.auction.update(item)
            for bid in self.waiting:
                yield *bid, *item
        self.waiting.clear()

    def process_element2(self, bid: Any, ctx: Any) -> Any:
        category = self.category.value()
        if category is None:
            self.waiting.add(bid)
        elif category == CATEGORY:
            return [(*bid, *self.auction.value())]
        return None


def q20(inputs: Inputs) -> DataFrame:
    return (
        keystate.keyed(inputs.auction, "id")
        .connect(keystate.keyed(inputs.bid, "auction"))
        .process(BidsWithAuction(), f"{BID}, {ITEM}")
    )


class NewSellers(KeyedCoProcessFunction):
    """q8: those who opened their first auction in the window in which they came; once each.

    The key is a person and a window.
    """

    def open(self, ctx: Any) -> None:
        self.name = ctx.get_state(ValueStateDescriptor("name", "string"))
        self.sells = ctx.get_state(ValueStateDescriptor("sells", "boolean"))

    def process_element1(self, person: Any, ctx: Any) -> Any:
        if self.sells.value():
            return [(person.id, person.name, person.stime)]
        self.name.update(person.name)
        ctx.timer_service().register_event_time_timer(person.stime + WINDOW - 1)
        return None

    def process_element2(self, auction: Any, ctx: Any) -> Any:
        if self.sells.value():
            return None
        self.sells.update(True)
        ctx.timer_service().register_event_time_timer(auction.stime + WINDOW - 1)
        name = self.name.value()
        return None if name is None else [(auction.seller, name, auction.stime)]

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.name.clear()
        self.sells.clear()


def q8(inputs: Inputs) -> DataFrame:
    start = f"unix_millis(dateTime) div {WINDOW} * {WINDOW} AS stime"
    people = in_time(inputs.person).selectExpr("id", start, "name", "dateTime")
    auctions = in_time(inputs.auction).selectExpr("seller", start, "dateTime")
    return (
        keystate.keyed(people, "id", "stime")
        .connect(keystate.keyed(auctions, "seller", "stime"))
        .process(NewSellers(), Q8)
    )
