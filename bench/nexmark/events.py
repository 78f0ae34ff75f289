"""The events of the NEXMark generator: people, auctions and bids, always the same ones.

The proportions, the hot keys and the distributions are those of the generators of Apache Beam and
of the NEXMark suite for Flink, in their default configuration. Their random numbers are not
seeded, so the events themselves differ.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

#: Of every fifty events the first is a person, the next three are auctions, the others bids.
PERSONS, AUCTIONS, BIDS = 1, 3, 46
CYCLE = PERSONS + AUCTIONS + BIDS
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
ACTIVE_PEOPLE, AUCTIONS_IN_FLIGHT, LEAD = 1000, 100, 10
#: Every hundredth seller, bidder and auction is a hot one, until the next one is.
HOT_EVERY = 100
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS = 2, 4, 4  # all but one of so many go to the hot one
_PLACES = {
    "person": (0, PERSONS),
    "auction": (PERSONS, PERSONS + AUCTIONS),
    "bid": (PERSONS + AUCTIONS, CYCLE),
}
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
START = 1_436_918_400_000  # 2015-07-15, in ms

SCHEMAS = {
    "person": "id long, name string, emailAddress string, creditCard string, city string, "
    "state string, dateTime timestamp, extra string",
    "auction": "id long, itemName string, description string, initialBid long, reserve long, "
    "dateTime timestamp, expires timestamp, seller long, category long, extra string",
    "bid": "auction long, bidder long, price long, channel string, url string, "
    "dateTime timestamp, extra string",
}

_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"]
_CITIES += ["Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
_FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky"]
_FIRST += ["Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_CHANNELS = 10_000


@dataclass(frozen=True)
class Events:
    """A stream of events.

    Attributes:
        count: how many.
        rate: how many a second, in event time.
        files: in how many parts they are written; each is a micro-batch.
    """

    count: int
    rate: int = 10_000
    files: int = 10

    def numbers(self, kind: str) -> np.ndarray:
        """Which of the events are of this kind."""
        number = np.arange(self.count)
        begin, end = _PLACES[kind]
        return number[(number % CYCLE >= begin) & (number % CYCLE < end)]

    def tables(self) -> dict[str, pa.Table]:
        """The events of each kind, in order of time."""
        chance = np.random.default_rng(20150715)
        return {
            "person": self._people(chance, self.numbers("person")),
            "auction": self._auctions(chance, self.numbers("auction")),
            "bid": self._bids(chance, self.numbers("bid")),
        }

    def cached(self, folder: Path) -> Path:
        """Folders `person`, `auction` and `bid` of Parquet files, written if they are not there.

        Their files of one name have what happened in the same time.
        """
        done = folder / f"nexmark-{self.count}-{self.rate}-{self.files}"
        if done.exists():
            return done
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as name:
            unfinished = Path(name) / "events"
            for kind, table in self.tables().items():
                (unfinished / kind).mkdir(parents=True)
                edges = [self.count * i // self.files for i in range(self.files + 1)]
                bounds = np.searchsorted(self.numbers(kind), edges).tolist()
                for i, (begin, end) in enumerate(itertools.pairwise(bounds)):
                    path = unfinished / kind / f"{i:05}.parquet"
                    pq.write_table(table.slice(begin, end - begin), path)
                    os.utime(path, (1e9 + i, 1e9 + i))  # the order in which Spark takes them
            unfinished.rename(done)
        return done

    def _micros(self, number: np.ndarray) -> np.ndarray:
        """When an event of this number happens, in µs, as whole ms."""
        return (START + number * 1000 // self.rate) * 1000

    def _time(self, number: np.ndarray) -> pa.Array:
        return pa.array(self._micros(number)).cast(pa.timestamp("us", tz="UTC"))

    def _people(self, chance: np.random.Generator, number: np.ndarray) -> pa.Table:
        size = len(number)
        columns = {
            "id": _last_person(number) + FIRST_ID,
            "name": _joined(_any(chance, _FIRST, size), " ", _any(chance, _LAST, size)),
            "emailAddress": _joined(_text(chance, size, 7), "@", _text(chance, size, 5), ".com"),
            "creditCard": _joined(*_card(chance, size)),
            "city": _any(chance, _CITIES, size),
            "state": _any(chance, _STATES, size),
        }
        texts = [columns[n] for n in ("name", "emailAddress", "creditCard", "city", "state")]
        return pa.table(
            {
                **columns,
                "dateTime": self._time(number),
                "extra": _extra(chance, 8 + _lengths(*texts), PERSON_BYTES),
            }
        )

    def _auctions(self, chance: np.random.Generator, number: np.ndarray) -> pa.Table:
        size = len(number)
        hot = _last_person(number) // HOT_EVERY * HOT_EVERY
        seller = np.where(
            chance.integers(0, HOT_SELLERS, size) > 0, hot, _some_person(chance, number)
        )
        name, description = _text(chance, size, 20), _text(chance, size, 100)
        first_bid = _prices(chance, size)
        begins = self._micros(number)
        # So long that there are so many auctions at a time, on average.
        ahead = self._micros(number + AUCTIONS_IN_FLIGHT * CYCLE // AUCTIONS) - begins
        length = 1 + chance.integers(0, np.maximum(ahead // 1000 * 2, 1))
        return pa.table(
            {
                "id": _last_auction(number) + FIRST_ID,
                "itemName": name,
                "description": description,
                "initialBid": first_bid,
                "reserve": first_bid + _prices(chance, size),
                "dateTime": self._time(number),
                "expires": pa.array(begins + length * 1000).cast(pa.timestamp("us", tz="UTC")),
                "seller": seller + FIRST_ID,
                "category": FIRST_CATEGORY + chance.integers(0, CATEGORIES, size),
                "extra": _extra(chance, 48 + _lengths(name, description), AUCTION_BYTES),
            }
        )

    def _bids(self, chance: np.random.Generator, number: np.ndarray) -> pa.Table:
        size = len(number)
        urls = _Urls(chance)
        last = _last_auction(number)
        least = np.maximum(last - AUCTIONS_IN_FLIGHT, 0)
        other = least + chance.integers(0, last - least + 1 + LEAD)
        auction = np.where(
            chance.integers(0, HOT_AUCTIONS, size) > 0, last // HOT_EVERY * HOT_EVERY, other
        )
        # The one after the hot seller.
        hot = _last_person(number) // HOT_EVERY * HOT_EVERY + 1
        bidder = np.where(
            chance.integers(0, HOT_BIDDERS, size) > 0, hot, _some_person(chance, number)
        )
        hot_channel = chance.integers(0, len(_HOT_CHANNELS), size)
        channel = len(_HOT_CHANNELS) + chance.integers(0, _CHANNELS, size)
        channel = pa.array(np.where(chance.integers(0, 2, size) > 0, hot_channel, channel))
        return pa.table(
            {
                "auction": auction + FIRST_ID,
                "bidder": bidder + FIRST_ID,
                "price": _prices(chance, size),
                "channel": urls.channels.take(channel),
                "url": urls.urls.take(channel),
                "dateTime": self._time(number),
                "extra": _extra(chance, np.full(size, 32), BID_BYTES),
            }
        )


class _Urls:
    """The hot channels, then the others, and the page of each."""

    def __init__(self, chance: np.random.Generator) -> None:
        size = len(_HOT_CHANNELS) + _CHANNELS
        self.channels = pa.array([*_HOT_CHANNELS, *(f"channel-{i}" for i in range(_CHANNELS))])
        parts = [_text(chance, size, 5, "_").to_pylist() for _ in range(3)]
        told = chance.integers(0, 10, size) > 0
        told[: len(_HOT_CHANNELS)] = False
        ids = chance.integers(0, 2**31, size)
        self.urls = pa.array(
            f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1"
            + (f"&channel_id={ids[i]}" if told[i] else "")
            for i, (a, b, c) in enumerate(zip(*parts))
        )


def _last_person(number: np.ndarray) -> np.ndarray:
    """The person whose event was the last one, counted from 0."""
    return number // CYCLE * PERSONS


def _last_auction(number: np.ndarray) -> np.ndarray:
    """The auction whose event was the last one, counted from 0."""
    return number // CYCLE * AUCTIONS + np.clip(number % CYCLE - PERSONS, -1, AUCTIONS - 1)


def _some_person(chance: np.random.Generator, number: np.ndarray) -> np.ndarray:
    """One of the active people, or of those who are to come next."""
    people = _last_person(number) + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    return people - active + chance.integers(0, active + LEAD)


def _prices(chance: np.random.Generator, size: int) -> np.ndarray:
    return np.rint(10.0 ** (chance.random(size) * 6) * 100).astype(np.int64)


def _any(chance: np.random.Generator, names: list[str], size: int) -> pa.Array:
    return pa.array(names).take(pa.array(chance.integers(0, len(names), size)))


def _card(chance: np.random.Generator, size: int) -> list[pa.Array | str]:
    quarters = pa.array([f"{i:04}" for i in range(10_000)])
    groups = [quarters.take(pa.array(chance.integers(0, 10_000, size))) for _ in range(4)]
    return [groups[0], " ", groups[1], " ", groups[2], " ", groups[3]]


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _lengths(*columns: pa.Array) -> np.ndarray:
    return sum(pc.binary_length(column).to_numpy(zero_copy_only=False) for column in columns)


def _text(chance: np.random.Generator, size: int, most: int, special: str = " ") -> pa.Array:
    """Texts of at least 3 and less than `most` letters, of which one in 13 is the special one."""
    lengths = 3 + chance.integers(0, most - 3, size)
    letters = _letters(chance, int(lengths.sum()))
    letters[chance.integers(0, 13, len(letters), dtype=np.uint8) == 0] = ord(special)
    return pc.utf8_trim_whitespace(_strings(letters, lengths))


def _extra(chance: np.random.Generator, used: np.ndarray, mean: int) -> pa.Array:
    """Letters that make an event as large as events of its kind are, by 20 % more or less."""
    left = np.maximum(mean - used, 0)
    spread = np.rint(left * 0.2).astype(np.int64)
    lengths = left - spread + chance.integers(0, np.maximum(2 * spread, 1))
    return _strings(_letters(chance, int(lengths.sum())), lengths)


def _letters(chance: np.random.Generator, size: int) -> np.ndarray:
    return chance.integers(ord("a"), ord("z") + 1, size, dtype=np.uint8)


def _strings(letters: np.ndarray, lengths: np.ndarray) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(lengths)])
    buffers = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.large_string(), len(lengths), buffers).cast(pa.string())
