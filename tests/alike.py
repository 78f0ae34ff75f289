"""How alike a result of an aggregate function is to Spark's own of the same rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: The values of the rows. ``{0}`` is the function's first argument, ``{where}`` its filter.
VALUES = "collect_list(struct({0})) {where}"
PAIRS = "collect_list(struct({0}, {1})) {where}"
IN_ORDER = "collect_list(struct({order}, {0})) {where}"
KNOWN_IN_ORDER = "collect_list(CASE WHEN {0} IS NOT NULL THEN struct({order}, {0}) END) {where}"

#: Rows that are sorted come in the order of their ids. Windows know times, and no more of an order.
BY_ID = ("id",)
BY_ANY = ("id", "t")


@dataclass(frozen=True)
class Alike:
    """How alike a result must be.

    Attributes:
        check: whether a result is right: of it, of Spark's own, and of the evidence.
        evidence: SQL of what else Spark tells of the rows.
        orders: the columns by whose order there is but one right result.
        in_order: whether a result is right then.
    """

    name: str
    check: Callable[[Any, Any, Any], bool]
    evidence: str = "NULL"
    orders: tuple[str, ...] = ()
    in_order: Callable[[Any, Any, Any], bool] | None = None


def plain(value: Any) -> Any:
    """What can be compared and counted: NaN is equal to itself, and -0.0 is not 0.0."""
    if isinstance(value, float):
        return "nan" if value != value else ("float", repr(value))
    if isinstance(value, dict):
        return ("map", tuple(sorted((repr(plain(k)), repr(plain(v))) for k, v in value.items())))
    if isinstance(value, (list, tuple)):
        return tuple(plain(each) for each in value)
    if isinstance(value, bytearray):
        return bytes(value)
    return value if type(value).__hash__ else repr(value)


def without_sign(value: Any) -> Any:
    """Which of -0.0 and 0.0 is the least, or the one that others are equal to, is left open."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, (list, tuple)):
        return [without_sign(each) for each in value]
    return value


def same(found: Any, told: Any) -> bool:
    return bool(plain(found) == plain(told))


def near(share: float, most: float = 0.0) -> Callable[[Any, Any, Any], bool]:
    def check(found: Any, told: Any, _: Any = None) -> bool:
        if isinstance(told, (list, tuple)) and isinstance(found, (list, tuple)):
            return len(found) == len(told) and all(map(check, found, told))
        numbers = isinstance(found, float) and isinstance(told, float)
        if not numbers or not math.isfinite(found - told):
            return same(found, told)
        return abs(found - told) <= max(most, share * max(abs(found), abs(told)))

    return check


def bag(values: Any) -> Any:
    return None if values is None else Counter(plain(each) for each in values)


def is_set(found: Any, told: Any, _: Any) -> bool:
    found, told = without_sign(found), without_sign(told)
    return bool(bag(found) == bag(told)) and set(bag(found).values()) <= {1}


def is_text_bag(found: Any, told: Any, _: Any) -> bool:
    if found is None or told is None:
        return found is told
    comma = "," if isinstance(found, str) else b","
    return sorted(found.split(comma)) == sorted(told.split(comma))


def is_one_of(found: Any, _: Any, rows: Any) -> bool:
    """The evidence is rows, of which the last value counts; null if there are none."""
    return plain(found) in {plain(row[-1]) for row in rows or [(None,)]}


def is_at(place: int) -> Callable[[Any, Any, Any], bool]:
    """The evidence is rows with an order and a value."""

    def check(found: Any, _: Any, rows: Any) -> bool:
        return same(found, sorted(rows, key=lambda row: row[0])[place][1] if rows else None)

    return check


def is_sorted(found: Any, _: Any, rows: Any) -> bool:
    """The evidence is rows with an order and a value."""
    return same(found, [row[1] for row in sorted(rows, key=lambda row: row[0])])


def is_tie(pick: Callable[..., Any]) -> Callable[[Any, Any, Any], bool]:
    """The evidence is pairs: of a value, and of that by which it is chosen."""

    def check(found: Any, told: Any, rows: Any) -> bool:
        known = [row for row in rows if row[1] is not None]
        best = pick((row[1] for row in known), default=None)
        return is_one_of(found, told, [row[:1] for row in known if row[1] == best])

    return check


def is_mode(found: Any, _: Any, rows: Any) -> bool:
    counts = Counter(plain(without_sign(value)) for (value,) in rows if value is not None)
    return counts[plain(without_sign(found))] == max(counts.values()) if counts else found is None


def is_mode_of_any_case(found: Any, _: Any, rows: Any) -> bool:
    return is_mode(found and found.lower(), _, rows)


def is_near_count(share: float) -> Callable[[Any, Any, Any], bool]:
    """The evidence is the different values. Three times the standard error is right, mostly."""

    def check(found: Any, told: Any, values: Any) -> bool:
        return all(abs(each - len(values)) <= 3 * share * len(values) + 1 for each in (found, told))

    return check


def is_near_rank(share: float, accuracy: int) -> Callable[[Any, Any, Any], bool]:
    """The error of an approximate percentile is at most 1 / accuracy of the rows."""

    def check(found: Any, _: Any, rows: Any) -> bool:
        known = sorted(value for (value,) in rows if value is not None)
        if not known:
            return found is None
        first, after = known.index(found), len(known) - known[::-1].index(found)
        error = len(known) / accuracy + 1
        return first - error <= share * len(known) <= after + error

    return check


def bins(histogram: Any) -> Any:
    """How many rows there are of each value: two parts of the rows have bins of their own."""
    if histogram is None:
        return None
    counts: Counter[Any] = Counter()
    for bin in histogram:
        counts[bin.x] += bin.y
    return counts


def is_histogram(found: Any, told: Any, rows: Any) -> bool:
    """Which bins are put together depends on the order of the rows, but each row is in one."""
    known = [value for (value,) in rows if value is not None]
    if not known:
        return found is None
    places = [bin.x for bin in found]
    return (
        len(found) <= 5
        and sum(bin.y for bin in found) == len(known)
        and min(known) <= min(places)
        and max(places) <= max(known)
    )


def is_top(found: Any, told: Any, rows: Any) -> bool:
    """Items that are as frequent come in any order."""
    counts = Counter(value for (value,) in rows)
    return is_as_frequent(found, told, rows) and all(
        counts[each["item"]] == each["count"] for each in found
    )


def is_as_frequent(found: Any, told: Any, _: Any) -> bool:
    return [each["count"] for each in found] == [each["count"] for each in told]


EXACT = Alike("exact", lambda found, told, _: same(found, told))
SIGNLESS = Alike(
    "exact but for the sign of zero",
    lambda found, told, _: same(without_sign(found), without_sign(told)),
)
CASELESS = Alike(
    "exact but for upper and lower case",
    lambda found, told, _: same(found and found.lower(), told and told.lower()),
)
CLOSE = Alike("within 1e-12", near(1e-12))
#: Differences of sums, and quotients of them: what is left of them may be next to nothing.
MOMENTS = Alike("within 1e-9", near(1e-9, 1e-9))
BAG = Alike(
    "a multiset",
    lambda found, told, _: bool(bag(found) == bag(told)),
    KNOWN_IN_ORDER,
    BY_ID,
    is_sorted,
)
SET = Alike("a set", is_set)
TEXT = Alike("a multiset of texts", is_text_bag)
MODE = Alike("one of the most frequent values", is_mode, VALUES)
MODE_LCASE = Alike(
    "one of the most frequent values",
    is_mode_of_any_case,
    "collect_list(struct(lower({0} COLLATE UTF8_BINARY))) {where}",
)
#: HyperLogLog with 16 registers.
HLL = Alike("within the error of the sketch", is_near_count(0.26), "collect_set({0}) {where}")
MAX_TIE = Alike("one of the greatest", is_tie(max), PAIRS)
MIN_TIE = Alike("one of the least", is_tie(min), PAIRS)
ANY = Alike("one of the values", is_one_of, IN_ORDER)
KNOWN = Alike("one of the values that are not null", is_one_of, KNOWN_IN_ORDER)
FIRST = Alike("the first value", is_one_of, IN_ORDER, BY_ANY, is_at(0))
LAST = Alike("the last value", is_one_of, IN_ORDER, BY_ANY, is_at(-1))
FIRST_KNOWN = Alike("the first that is not null", is_one_of, KNOWN_IN_ORDER, BY_ANY, is_at(0))
LAST_KNOWN = Alike("the last that is not null", is_one_of, KNOWN_IN_ORDER, BY_ANY, is_at(-1))
BINS = Alike("a bin for each value", lambda found, told, _: bool(bins(found) == bins(told)))
HISTOGRAM = Alike("a histogram of the rows", is_histogram, VALUES)
RANK = Alike("within the error of the ranks", is_near_rank(0.4, 5), VALUES)
TOP = Alike("the most frequent values", is_top, VALUES)
COUNTS = Alike("as frequent as the most frequent ones", is_as_frequent)
