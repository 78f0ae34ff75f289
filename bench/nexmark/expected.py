"""The queries in plain SQL over all events: what each must emit."""

from __future__ import annotations

from bench.nexmark.inputs import Query

PERSON, AUCTION, BID = "person", "auction", "bid"
ALL_BID = "auction, bidder, price, channel, url, B.dateTime AS bid_dateTime, B.extra AS bid_extra"
ALL_ITEM = (
    "itemName, description, initialBid, reserve, A.dateTime AS auction_dateTime, expires, seller, "
    "category, A.extra AS auction_extra"
)
IN_TIME = "A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires"
SOLD = f"""
  SELECT id, category, seller, unix_millis(expires) AS known, MAX(price) AS price
  FROM auction A JOIN bid B ON {IN_TIME} GROUP BY id, category, seller, expires"""
COUNTS = """
  SELECT auction, COUNT(*) AS num, window.end AS ends
  FROM (SELECT window(dateTime, '10 seconds', '2 seconds') AS window, auction FROM bid)
  GROUP BY window, auction"""

QUERIES = [
    Query(
        "q3",
        "auctions of local sellers",
        (PERSON, AUCTION),
        """SELECT P.name, P.city, P.state, A.id, NULL AS known
           FROM auction A JOIN person P ON A.seller = P.id
           WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    ),
    Query(
        "q4",
        "average price of a category",
        (AUCTION, BID),
        f"""SELECT category, known, AVG(price) OVER (
              PARTITION BY category ORDER BY known, id ROWS UNBOUNDED PRECEDING) AS average
            FROM ({SOLD})""",
    ),
    Query(
        "q5",
        "auctions with most bids, in sliding windows",
        (BID,),
        f"""SELECT auction, num, unix_millis(ends) AS endtime, unix_millis(ends) - 1 AS known
            FROM (SELECT *, MAX(num) OVER (PARTITION BY ends) AS most FROM ({COUNTS}))
            WHERE num = most""",
    ),
    Query(
        "q6",
        "average price of a seller's last ten auctions",
        (AUCTION, BID),
        f"""SELECT seller, known, AVG(price) OVER (
              PARTITION BY seller ORDER BY known, id ROWS 9 PRECEDING) AS average
            FROM ({SOLD})""",
    ),
    Query(
        "q7",
        "highest bid of ten seconds",
        (BID,),
        """SELECT auction, bidder, price, dateTime, extra, unix_millis(ends) - 1 AS known
           FROM (SELECT *, MAX(price) OVER (PARTITION BY ends) AS most
                 FROM (SELECT *, window(dateTime, '10 seconds').end AS ends FROM bid))
           WHERE price = most""",
    ),
    Query(
        "q8",
        "new people who sell, in windows",
        (PERSON, AUCTION),
        """SELECT DISTINCT P.id, name, P.stime, NULL AS known
           FROM (SELECT *, unix_millis(window(dateTime, '10 seconds').start) AS stime
                 FROM person) P
           JOIN (SELECT *, unix_millis(window(dateTime, '10 seconds').start) AS stime
                 FROM auction) A
           ON P.id = A.seller AND P.stime = A.stime""",
    ),
    Query(
        "q9",
        "winning bids",
        (AUCTION, BID),
        f"""SELECT * EXCEPT (place) FROM (
              SELECT id, {ALL_ITEM}, {ALL_BID}, unix_millis(expires) AS known,
                ROW_NUMBER() OVER (PARTITION BY id ORDER BY price DESC, B.dateTime) AS place
              FROM auction A JOIN bid B ON {IN_TIME})
            WHERE place = 1""",
    ),
    Query(
        "q11",
        "bids in a bidder's session",
        (BID,),
        """SELECT bidder, bid_count, unix_millis(session.start) AS starttime,
             unix_millis(session.end) AS endtime, unix_millis(session.end) - 1 AS known
           FROM (SELECT bidder, COUNT(*) AS bid_count, session_window AS session
                 FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds'))""",
    ),
    Query(
        "q12",
        "bids of a bidder, in windows by processing time",
        (BID,),
        "SELECT bidder, COUNT(*) AS bid_count, NULL AS known FROM bid GROUP BY bidder",
        by_clock=True,
    ),
    Query(
        "q18",
        "last bid of a bidder for an auction",
        (BID,),
        """SELECT auction, bidder, MAX(dateTime) AS dateTime, NULL AS known
           FROM bid GROUP BY auction, bidder""",
        final=("auction", "bidder"),
    ),
    Query(
        "q19",
        "an auction's ten highest bids",
        (BID,),
        """SELECT auction, price, rank_number, NULL AS known FROM (
             SELECT auction, price,
               ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
             FROM bid)
           WHERE rank_number <= 10""",
        final=("auction", "rank_number"),
    ),
    Query(
        "q20",
        "bids with their auctions",
        (AUCTION, BID),
        f"""SELECT {ALL_BID}, {ALL_ITEM}, NULL AS known
            FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10""",
    ),
]
