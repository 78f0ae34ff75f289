"""The functions of guides and examples, against plain Python that sees all rows at once.

How rows are spread over micro-batches is chance: a query that catches up takes a year's in one. So
each function gets the same rows in several ways, among them silence that is longer than it waits.
"""

from __future__ import annotations

import ast
import datetime
import importlib
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from keystate.testing import KeyedProcessHarness, KeyedTwoInputHarness

ROOT = Path(__file__).resolve().parents[2]
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
START = 1_767_261_600_000

#: A row: its key, its time in ms, and whatever else it has.
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Page:
    """A function of a page, and the same in plain Python.

    Attributes:
        make: makes a harness.
        row: a row for the harness.
        delay: that of the watermark, in ms; rows come at most so late.
        step: the time between two rows of a key, in ms: a random one is near one of these.
        payload: what a row has besides key and time.
        expected: what all rows emit, in whatever order; of the micro-batches, each sorted by time.
        unordered: whether rows of a key may come out of order in different micro-batches.
    """

    make: Callable[[], Any]
    row: Callable[..., Any]
    delay: int
    step: Sequence[int]
    payload: Callable[[random.Random], tuple[Any, ...]]
    expected: Callable[[list[Rows]], Iterable[Any]]
    unordered: bool = True


def names_of(page: str) -> dict[str, Any]:
    """The imports, constants, functions and classes of a page or an example."""
    path = ROOT / page
    if path.suffix == ".py":
        return vars(importlib.import_module(page.removesuffix(".py").replace("/", ".")))
    code = "".join(re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.M | re.S))
    kept = [node for node in ast.parse(code).body if _is_declaration(node)]
    names: dict[str, Any] = {"__name__": "__main__"}  # so that its classes are pickled whole
    exec(compile(ast.Module(kept, []), page, "exec"), names)
    return names


def _is_declaration(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return all(name.id.isupper() for name in ast.walk(node.targets[0]) if _is_name(name))
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef))


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def time_of(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000)


def by_key(rows: Rows) -> dict[Any, Rows]:
    """The rows of each key in order of time."""
    found: dict[Any, Rows] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[1]):
        found[row[0]].append(row)
    return found


def flat(batches: list[Rows]) -> Rows:
    return [row for batch in batches for row in batch]


# Sessions


def sessions() -> Any:
    names = names_of("docs/guides/sessions.md")
    schema = "user string, time timestamp, action string"
    output = "user string, clicks int, seconds long"
    return KeyedProcessHarness(names["Sessions"](), schema, "user", output, event_time="time")


def expected_sessions(batches: list[Rows]) -> Iterable[Any]:
    for user, rows in by_key(flat(batches)).items():
        session: list[int] = []
        for i, (_, time, action) in enumerate(rows):
            session.append(time)
            then = rows[i + 1][1] if i + 1 < len(rows) else math.inf
            if (action == "logout" and then > time) or then - time >= 30 * MINUTE:
                yield user, len(session), (session[-1] - session[0]) // 1000
                session = []


def counted_sessions() -> Any:
    return names_of("docs/testing.md")["sessions"]()


def expected_counted_sessions(batches: list[Rows]) -> Iterable[Any]:
    for user, rows in by_key(flat(batches)).items():
        clicks = 0
        for row, then in zip(rows, [*rows[1:], (user, math.inf)]):
            clicks += 1
            if then[1] - row[1] >= MINUTE:
                yield user, clicks
                clicks = 0


# Deduplication


def deduplication() -> Any:
    names = names_of("docs/guides/deduplication.md")
    schema = "id string, time timestamp"
    return KeyedProcessHarness(
        names["FirstInAnHour"](), schema, "id", schema, event_time="time", order_by="time"
    )


def expected_deduplication(batches: list[Rows]) -> Iterable[Any]:
    passed: dict[Any, list[int]] = defaultdict(list)
    for id, time in flat(batches):
        if all(abs(time - other) >= HOUR for other in passed[id]):
            passed[id].append(time)
            yield id, time_of(time)


# Fraud


def fraud() -> Any:
    names = names_of("docs/guides/fraud.md")
    schema = "card string, time timestamp, amount double"
    output = "card string, amount double, suspicious boolean"
    return KeyedProcessHarness(
        names["FraudDetector"](),
        schema,
        "card",
        output,
        event_time="time",
        order_by="time",
        side_outputs=[names["ALERTS"]],
    )


def expected_fraud(batches: list[Rows]) -> Iterable[Any]:
    before: dict[Any, tuple[int, float]] = {}
    for card, time, amount in flat(batches):
        last, small = before.get(card, (0, 9.0))
        yield card, amount, small < 1 and 0 <= time - last <= MINUTE
        before[card] = time, amount


# Features


def features() -> Any:
    names = names_of("docs/guides/features.md")
    output = (
        "card string, amount double, before long, seconds_since_last double, "
        "hour_count int, hour_mean double, rate double"
    )
    schema = "card string, ms long, amount double, time timestamp"
    return KeyedProcessHarness(
        names["Features"](), schema, "card", output, event_time="time", order_by="ms"
    )


def expected_features(batches: list[Rows]) -> Iterable[Any]:
    for card, rows in by_key(flat(batches)).items():
        for i, (_, time, amount) in enumerate(rows):
            before = rows[:i]
            hour = [each[2] for each in before if time - each[1] <= HOUR]
            rate = sum(math.exp(-(time - each[1]) / HOUR) for each in before)
            since = (time - before[-1][1]) / 1000 if before else None
            mean = sum(hour) / len(hour) if hour else None
            yield card, amount, i, since, len(hour), mean, pytest.approx(rate, abs=0.0006)


# The examples


def windows() -> Any:
    names = names_of("examples/fraud.py")
    from keystate import Time
    from keystate.windows import TumblingEventTimeWindows, window

    windowed = (
        window(TumblingEventTimeWindows.of(Time.minutes(10)))
        .allowed_lateness(Time.hours(1))
        .aggregate(names["Spending"](), "payments long, amount long", names["Rules"]())
    )
    output = "card string, payments long, amount long"
    return KeyedProcessHarness(windowed, names["PAYMENTS"], "card", output, event_time="time")


def expected_alerts(batches: list[Rows]) -> Iterable[Any]:
    found: dict[Any, list[int]] = defaultdict(list)
    for card, time, amount in flat(batches):
        found[card, time // (10 * MINUTE)].append(amount)
    for (card, _), amounts in found.items():
        if len(amounts) > 3 or sum(amounts) > 1000:
            yield (card,)


class Orders:
    """Gives the rows of two inputs to the harness of the example as if they were one."""

    def __init__(self) -> None:
        self.harness = KeyedTwoInputHarness(
            names_of("examples/enrichment.py")["JoinOrders"](),
            "time timestamp, order string, item string",
            "order",
            "time timestamp, id string, amount long",
            "id",
            "order string, what string",
            event_time1="time",
            event_time2="time",
            ordered_by="time",
        )
        self.advance_watermark = self.harness.advance_watermark

    def process_batch(self, rows: Rows, watermark: int) -> Any:
        orders = [(time, id, "tea") for id, time, paid in rows if not paid]
        payments = [(time, id, 7) for id, time, paid in rows if paid]
        return self.harness.process_batch(orders, payments, watermark=watermark)

    def __enter__(self) -> Orders:
        return self

    def __exit__(self, *of: Any) -> None:
        self.harness.close()


def expected_orders(batches: list[Rows]) -> Iterable[Any]:
    for id, rows in by_key(flat(batches)).items():
        if len(rows) == 2 and rows[1][1] - rows[0][1] <= 10 * MINUTE:
            yield id, "tea for 7"
        else:
            yield from ((id, "7 for nothing" if paid else "tea, not paid") for *_, paid in rows)


def event(key: Any, time: int, *more: Any) -> Any:
    return (key, time_of(time), *more)


PAGES = {
    "sessions": Page(
        sessions,
        event,
        MINUTE,
        (20 * SECOND, 25 * MINUTE, 30 * MINUTE, 5 * HOUR),
        lambda chance: (chance.choice(["view", "view", "view", "logout"]),),
        expected_sessions,
    ),
    "testing": Page(
        counted_sessions,
        event,
        30 * SECOND,
        (10 * SECOND, MINUTE, 2 * HOUR),
        lambda _: (),
        expected_counted_sessions,
        unordered=False,
    ),
    "deduplication": Page(
        deduplication,
        event,
        5 * MINUTE,
        (MINUTE, 30 * MINUTE, HOUR, 5 * HOUR),
        lambda _: (),
        expected_deduplication,
    ),
    "fraud": Page(
        fraud,
        event,
        10 * SECOND,
        (5 * SECOND, MINUTE, 2 * HOUR),
        lambda chance: (chance.choice([0.5, 20.0, 600.0]),),
        expected_fraud,
    ),
    "features": Page(
        features,
        lambda card, time, amount: (card, time, amount, time_of(time)),
        MINUTE,
        (SECOND, 30 * MINUTE, HOUR, 5 * HOUR),
        lambda chance: (float(chance.randrange(100)),),
        expected_features,
        unordered=False,
    ),
    "examples/fraud": Page(
        windows,
        event,
        MINUTE,
        (MINUTE, MINUTE, MINUTE, 2 * MINUTE, 5 * HOUR),
        lambda chance: (chance.choice([5, 400, 700]),),
        expected_alerts,
    ),
    "examples/enrichment": Page(
        Orders,
        event,
        MINUTE,
        (MINUTE, 10 * MINUTE, 5 * HOUR),
        lambda _: (),
        expected_orders,
    ),
}


def made_rows(page: Page, chance: random.Random) -> Rows:
    """Rows in order of time. Every second step is near one that the function waits for."""
    orders = page.make is Orders
    rows: Rows = []
    time = START
    for i in range(60):
        for key in ("ann", "bob"):
            at = time + chance.choice((0, 0, 1, -1))
            if orders:
                first = bool(chance.randrange(2))
                rows.append((f"{key}{i}", at, first))
                if chance.randrange(5):
                    rows.append((f"{key}{i}", at + chance.choice(page.step), not first))
            elif chance.randrange(3):
                rows.append((key, at, *page.payload(chance)))
        time += chance.choice(page.step) * chance.choice((1, 1, 2))
    return sorted({row[:2]: row for row in rows}.values(), key=lambda row: row[1])


def one_by_one(page: Page, rows: Rows, chance: random.Random) -> list[Rows]:
    return [[row] for row in rows]


def backfill(page: Page, rows: Rows, chance: random.Random) -> list[Rows]:
    return [rows]


def shuffled_backfill(page: Page, rows: Rows, chance: random.Random) -> list[Rows]:
    return [chance.sample(rows, len(rows))]


def some_at_a_time(page: Page, rows: Rows, chance: random.Random) -> list[Rows]:
    batches: list[Rows] = [[]]
    for row in rows:
        if chance.randrange(4) == 0:
            batches.append([])
        batches[-1].append(row)
    return [chance.sample(batch, len(batch)) for batch in batches]


def out_of_order(page: Page, rows: Rows, chance: random.Random) -> list[Rows]:
    """Each row comes as late as the watermark allows it, or less late."""
    came = sorted(rows, key=lambda row: row[1] + chance.randrange(page.delay))
    return some_at_a_time(page, came, chance)


def far_out_of_order(page: Page, rows: Rows, chance: random.Random) -> list[Rows]:
    """Two micro-batches, each with rows from the whole time: the watermark has not moved yet."""
    chosen = [bool(chance.randrange(2)) for _ in rows]
    return [[row for row, of in zip(rows, chosen) if of is one] for one in (True, False)]


IN_ORDER = (one_by_one, backfill, shuffled_backfill, some_at_a_time)
CASES = [
    pytest.param(name, way, id=f"{name}-{way.__name__}")
    for name, page in PAGES.items()
    for way in (*IN_ORDER, *((out_of_order, far_out_of_order) if page.unordered else ()))
]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_emits_what_plain_python_does(name: str, way: Callable[..., list[Rows]]) -> None:
    page = PAGES[name]
    for seed in range(3):
        chance = random.Random(f"{name} {seed}")
        batches = [batch for batch in way(page, made_rows(page, chance), chance) if batch]
        found = run(page, batches, chance, idle=way is not far_out_of_order)
        arrived = [sorted(batch, key=lambda row: row[1]) for batch in batches]
        expected = list(page.expected(arrived))
        assert len(expected) > 5
        width = len(expected[0])
        assert sorted_rows(row[:width] for row in found) == sorted_rows(expected), f"seed {seed}"


def run(page: Page, batches: list[Rows], chance: random.Random, idle: bool) -> list[Any]:
    """Runs micro-batches as a query does; if it is `idle` now and then, some of no rows too."""
    found: list[Any] = []
    watermark = latest = 0
    with page.make() as harness:
        for batch in batches:
            rows = [page.row(*row) for row in batch]
            found += harness.process_batch(rows, watermark=watermark)
            latest = max(latest, *(row[1] for row in batch))
            watermark = max(watermark, latest - page.delay)
            if idle and chance.randrange(2):
                found += harness.advance_watermark(watermark)
        for _ in range(2):  # what a timer of the last one has set
            found += harness.advance_watermark(latest + 24 * HOUR)
    return [tuple(row) for row in found]


def sorted_rows(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: [str(value) for value in row[:3]])
