"""The queries that have a form in Spark's streaming SQL, on Spark's own provider."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from bench.nexmark.inputs import Inputs, Way, in_time
from bench.session import STOCK


def q3(inputs: Inputs) -> DataFrame:
    people = inputs.person.where("state IN ('OR', 'ID', 'CA')")
    auctions = inputs.auction.where("category = 10").select("seller", sf.col("id").alias("auction"))
    joined = auctions.join(people, sf.expr("seller = id"))
    return joined.selectExpr("name", "city", "state", "auction AS id")


def q5(inputs: Inputs) -> DataFrame:
    """Of several auctions with most bids it has one."""
    counts = (
        in_time(inputs.bid)
        .groupBy(sf.window("dateTime", "10 seconds", "2 seconds"), "auction")
        .agg(sf.count("*").alias("num"))
    )
    most = counts.groupBy("window").agg(sf.max(sf.struct("num", "auction")).alias("most"))
    return most.selectExpr("most.auction", "most.num", "unix_millis(window.end) AS endtime")


def q7(inputs: Inputs) -> DataFrame:
    """Of several equal bids it has one."""
    row = sf.struct("price", "auction", "bidder", "dateTime", "extra")
    highest = (
        in_time(inputs.bid)
        .groupBy(sf.window("dateTime", "10 seconds"))
        .agg(sf.max(row).alias("bid"))
    )
    return highest.select("bid.*")


def q8(inputs: Inputs) -> DataFrame:
    window = sf.window("dateTime", "10 seconds").alias("window")
    people = in_time(inputs.person).select("id", "name", window)
    sellers = (
        in_time(inputs.auction).select("seller", window).dropDuplicates(["seller", "window"])
    ).withColumnRenamed("window", "when")
    joined = people.join(sellers, sf.expr("id = seller AND window = when"))
    return joined.selectExpr("id", "name", "unix_millis(window.start) AS stime")


def q11(inputs: Inputs) -> DataFrame:
    sessions = (
        in_time(inputs.bid)
        .groupBy(sf.session_window("dateTime", "10 seconds").alias("session"), "bidder")
        .agg(sf.count("*").alias("bid_count"))
    )
    return sessions.selectExpr(
        "bidder",
        "bid_count",
        "unix_millis(session.start) AS starttime",
        "unix_millis(session.end) AS endtime",
    )


def q12(inputs: Inputs) -> DataFrame:
    window = sf.window(sf.current_timestamp(), "10 seconds").alias("window")
    counts = inputs.bid.groupBy(window, "bidder").agg(sf.count("*").alias("bid_count"))
    return counts.selectExpr(
        "bidder",
        "bid_count",
        "unix_millis(window.start) AS starttime",
        "unix_millis(window.end) AS endtime",
    )


def q18(inputs: Inputs) -> DataFrame:
    rest = sf.struct("price", "channel", "url", "dateTime", "extra")
    last = inputs.bid.groupBy("auction", "bidder").agg(sf.max_by(rest, "dateTime").alias("bid"))
    return last.selectExpr("auction", "bidder", "bid.*")


def q20(inputs: Inputs) -> DataFrame:
    bids = inputs.bid.withColumnsRenamed({"dateTime": "bid_dateTime", "extra": "bid_extra"})
    auctions = inputs.auction.where("category = 10").withColumnsRenamed(
        {"dateTime": "auction_dateTime", "extra": "auction_extra"}
    )
    return bids.join(auctions, sf.expr("auction = id")).drop("id")


WAYS = {
    **{query.__name__: Way(query, settings=STOCK) for query in (q3, q8, q11, q20)},
    **{query.__name__: Way(query, settings=STOCK, picks=True) for query in (q5, q7)},
    **{query.__name__: Way(query, "update", STOCK) for query in (q12, q18)},
}
