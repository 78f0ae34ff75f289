"""Functions whose calls overlap, in the harness."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from datetime import timedelta
from functools import partial
from typing import Any

import keystate
import pytest
from keystate import (
    AsyncKeyedProcessFunction,
    DeclarationError,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    FunctionError,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTypeError,
    StateAccessError,
    StateTypeError,
    Time,
    ValueStateDescriptor,
)
from keystate.testing import KeyedProcessHarness, rows_of

from tests.all_states import INPUT, OUTPUT, Overlapping, Plain
from tests.attributes import Attributes

SCHEMA = "key string, x long"
OUT = "key string, what string"


def harness(fn: Any, **options: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(fn, SCHEMA, "key", OUT, **options)


def told(fn: Any, rows: list[Any], **options: Any) -> list[tuple[str, str]]:
    with harness(fn, **options) as running:
        return [tuple(row) for row in running.process_batch(rows)]


class Async(AsyncKeyedProcessFunction):
    """Counts the rows of a key around a pause."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        n = self.count.value() + 1
        await self.pause(row)
        self.count.update(n)
        return ctx.get_current_key(), f"{row.x} {n}"

    async def pause(self, row: Any) -> None:
        await asyncio.sleep(0.001)


# -- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 3, 100])
@pytest.mark.parametrize("seed", range(3))
def test_states_are_as_without_overlap(seed: int, capacity: int) -> None:
    rng = random.Random(seed)
    plain = KeyedProcessHarness(Plain(), INPUT, "key", OUTPUT, parallelism=2)
    overlapping = KeyedProcessHarness(
        Overlapping(seed), INPUT, "key", OUTPUT, parallelism=2, capacity=capacity
    )
    with plain, overlapping:
        for batch in range(4):
            rows = [(rng.randrange(9), rng.randrange(100)) for _ in range(60)]
            results = [
                each.process_batch(rows, processing_time=batch * 10)
                for each in (plain, overlapping)
            ]
            # Timers of different keys fire in any order.
            assert sorted(results[1]) == sorted(results[0])
            of_rows = [[row for row in each if row.kind == "row"] for each in results]
            assert of_rows[1] == of_rows[0]
        for key in range(9):
            for name in ("count", "all", "by_rest", "sorted", "most"):
                assert overlapping.state(key, name) == plain.state(key, name)
            assert overlapping.timers(key) == plain.timers(key)


class InFlight(Async):
    """Emits how many calls are in flight, of all keys and of this one."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.keys: list[str] = []

    async def process_element(self, row: Any, ctx: Any) -> Any:
        self.keys.append(row.key)
        yield row.key, f"{len(self.keys)} {self.keys.count(row.key)}"
        await asyncio.sleep(0.002)
        self.keys.remove(row.key)


def test_rows_of_different_keys_overlap_up_to_the_capacity() -> None:
    rows = [(f"key-{i % 20}", i) for i in range(100)]
    numbers = [tuple(map(int, what.split())) for _, what in told(InFlight(), rows, capacity=7)]
    assert len(numbers) == 100
    assert max(numbers)[0] == 7
    assert {of_key for _, of_key in numbers} == {1}


def test_a_key_with_many_rows_does_not_hold_up_others() -> None:
    rows = [("a", i) for i in range(20)] + [(f"b-{i}", 0) for i in range(20)]
    rng = random.Random(5)
    rng.shuffle(rows)
    numbers = [int(what.split()[0]) for _, what in told(InFlight(), rows, capacity=2)]
    # One worker has the 20 rows of a, the other one those of the other keys.
    assert numbers.count(2) > 30


@pytest.mark.parametrize("ordered", [True, False])
def test_the_order_of_results(ordered: bool) -> None:
    class InTurn(Async):
        """Calls end in the order of x."""

        ended = -1

        async def pause(self, row: Any) -> None:
            while self.ended < row.x - 1:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.005)
            self.ended = row.x

    rows = [("a", 2), ("b", 0), ("a", 3), ("c", 1)]
    expected = [("a", "2 1"), ("b", "0 1"), ("a", "3 2"), ("c", "1 1")]
    if not ordered:
        expected = [expected[i] for i in (1, 3, 0, 2)]
    assert told(InTurn(), rows, ordered=ordered) == expected


# -- what a call may be ---------------------------------------------------------------------------


class Forms(Async):
    async def process_element(self, row: Any, ctx: Any) -> Any:
        await asyncio.sleep(0)
        results = [(row.key, "1"), {"key": row.key, "what": "2"}]
        if row.x == 0:
            return None
        if row.x == 1:
            return results[0]
        if row.x == 2:
            return results
        return (each for each in results)


def test_forms_of_results() -> None:
    assert told(Forms(), [("a", x) for x in range(4)]) == [
        *[("a", "1")],
        *[("a", "1"), ("a", "2")],
        *[("a", "1"), ("a", "2")],
    ]


def test_a_callable() -> None:
    async def returns(row: Any, ctx: Any) -> Any:
        await asyncio.sleep(0)
        return ctx.get_current_key(), str(row.x)

    async def yields(row: Any, ctx: Any) -> Any:
        yield ctx.get_current_key(), str(row.x)

    async def has_all(row: Any, ctx: Any) -> Any:
        return Attributes(key=ctx.get_current_key(), what=str(row.x))

    class Returns:
        async def __call__(self, row: Any, ctx: Any) -> Any:
            return await returns(row, ctx)

    class Yields:
        async def __call__(self, row: Any, ctx: Any) -> Any:
            async for each in yields(row, ctx):
                yield each

    for callable_ in (Returns(), Yields(), partial(returns)):
        assert told(callable_, [("a", 1), ("b", 2)]) == [("a", "1"), ("b", "2")]
    with pytest.raises(DeclarationError, match=r"is async: only process\(\) of a keyed stream"):
        keystate.keyed(rows_of("key string"), "key").map(Returns(), "key string")
    assert told(returns, [("a", 1), ("b", 2)]) == [("a", "1"), ("b", "2")]
    assert told(yields, [("a", 1), ("b", 2)], capacity=1) == [("a", "1"), ("b", "2")]
    assert told(has_all, [("a", 1), ("b", 2)]) == [("a", "1"), ("b", "2")]


def test_a_result_that_does_not_fit() -> None:
    class Wrong(Async):
        async def process_element(self, row: Any, ctx: Any) -> Any:
            return 1, 2, 3

    with pytest.raises(OutputTypeError, match="output schema"):
        told(Wrong(), [("a", 1)])


class Opened(Async):
    """Has what needs a running loop; its background task goes on from message to message."""

    closed: list[str] = []  # noqa: RUF012

    async def open(self, ctx: Any) -> None:  # type: ignore[override]
        super().open(ctx)
        self.beats = 0
        self.task = asyncio.get_running_loop().create_task(self.beat())

    async def beat(self) -> None:
        try:
            while True:
                self.beats += 1
                await asyncio.sleep(0.0001)
        finally:
            Opened.closed.append("beat")

    async def process_element(self, row: Any, ctx: Any) -> Any:
        await asyncio.sleep(0.005)
        return row.key, str(self.beats > 1)

    async def close(self) -> None:
        await asyncio.sleep(0)
        Opened.closed.append("close")


def test_open_and_close_may_be_async() -> None:
    Opened.closed.clear()
    with harness(Opened()) as running:  # which has opened and closed a copy to learn the states
        Opened.closed.clear()
        assert running.process(("a", 1)) == running.process(("a", 2)) == [("a", "True")]
    assert Opened.closed == ["close", "beat"]


def test_within_a_running_loop() -> None:
    async def main() -> Any:
        return told(Opened(), [("a", 1)]), told(Async(), [("a", 1), ("a", 2)])

    assert asyncio.run(main()) == ([("a", "True")], [("a", "1 1"), ("a", "2 2")])


# -- errors ---------------------------------------------------------------------------------------


class Fails(Async):
    ended: list[str] = []  # noqa: RUF012

    async def pause(self, row: Any) -> None:
        try:
            await asyncio.sleep(0.01 if row.x else 600)
            if row.x == 2:
                raise ValueError("no such thing")
            if row.x == 3:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
        finally:
            Fails.ended.append(row.key)


def test_an_error_names_key_and_row_and_ends_the_others() -> None:
    Fails.ended.clear()
    with harness(Fails()) as running:
        assert running.process(("a", 1)) == [("a", "1 1")]
        with pytest.raises(FunctionError) as error:
            running.process_batch([("slow", 0), ("a", 1), ("bad", 2)])
        text = str(error.value)
        assert text.startswith("[KEYSTATE_FUNCTION_FAILED] ValueError: no such thing\nTraceback")
        assert 'raise ValueError("no such thing")' in text
        assert text.endswith("while processing key 'bad', row Row(key='bad', x=2)")
        assert "async_operator.py" not in text
        assert sorted(Fails.ended) == ["a", "a", "bad", "slow"]
        # Nothing of that micro-batch counts.
        assert running.process(("a", 1)) == [("a", "1 2")]


def test_a_call_that_was_cancelled_is_no_success() -> None:
    with pytest.raises(FunctionError, match=r"CancelledError(.|\n)*processing key 'bad'"):
        told(Fails(), [("a", 1), ("bad", 3), ("b", 1)])


def test_a_value_that_does_not_fit_names_the_right_key() -> None:
    class Wrong(Async):
        async def process_element(self, row: Any, ctx: Any) -> None:
            await asyncio.sleep(0.001 * row.x)
            self.count.update("text" if row.key == "bad" else row.x)

    rows = [("a", 2), ("bad", 1), ("b", 3)]
    retry = FixedDelayRetryStrategy(1000, 1000)
    with pytest.raises(StateTypeError, match="'count' of key 'bad'"):
        told(Wrong(), rows, retry=retry)


class Elsewhere(Async):
    def __init__(self, where: str) -> None:
        self.where = where

    async def read(self) -> int:
        await asyncio.sleep(0.002)
        return int(self.count.value())

    async def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(row.x)
        if self.where == "gathered":
            values = await asyncio.gather(self.read(), asyncio.create_task(self.read()))
            return row.key, f"{values} {ctx.get_current_key()}"
        if self.where == "thread":
            return row.key, await asyncio.to_thread(self.count.value)
        if row.x == 1:
            self.task = asyncio.create_task(self.read())
            return None
        return row.key, str(await self.task)


def test_tasks_of_a_call_have_its_key() -> None:
    rows = [(key, i) for i, key in enumerate("abc")]
    assert told(Elsewhere("gathered"), rows) == [(k, f"[{i}, {i}] {k}") for k, i in rows]


def test_a_task_that_outlives_its_call_has_no_key() -> None:
    with pytest.raises(StateAccessError, match="state 'count' was used where no key"):
        told(Elsewhere("later"), [("a", 1), ("a", 2)])


def test_another_thread_has_no_key() -> None:
    with pytest.raises(StateAccessError, match="other threads"):
        told(Elsewhere("thread"), [("a", 1)])


class Meet(AsyncKeyedProcessFunction):
    """Its calls block until there are 60."""

    barrier = threading.Barrier(60)

    async def process_element(self, row: Any, ctx: Any) -> Any:
        await asyncio.to_thread(Meet.barrier.wait, 60)
        return row.key, "met"


def test_blocking_calls_overlap_in_threads() -> None:
    rows = [(str(i), 0) for i in range(60)]
    assert told(Meet(), rows, capacity=60) == [(str(i), "met") for i in range(60)]


# -- timers ---------------------------------------------------------------------------------------


class WithTimers(Async):
    """At a key's first timer the second one is deleted, after a pause."""

    async def process_element(self, row: Any, ctx: Any) -> None:
        self.count.update(row.x)
        await asyncio.sleep(0)
        for when in (10, 20, 30):
            ctx.timer_service().register_processing_time_timer(when)

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        await asyncio.sleep(0.002)
        ctx.timer_service().delete_processing_time_timer(20)
        yield ctx.get_current_key(), f"{timestamp} {self.count.value()} {ctx.timestamp()}"


class PlainTimers(WithTimers):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:  # type: ignore[override]
        ctx.timer_service().delete_processing_time_timer(20)
        return [(ctx.get_current_key(), f"{timestamp} {self.count.value()} {ctx.timestamp()}")]


@pytest.mark.parametrize("fn", [WithTimers(), PlainTimers()])
def test_timers(fn: Any) -> None:
    with harness(fn) as running:
        running.process_batch([("a", 1), ("b", 2)])
        fired = [tuple(row) for row in running.set_processing_time(30)]
        assert sorted(fired) == [
            *[("a", "10 1 10"), ("a", "30 1 30")],
            *[("b", "10 2 10"), ("b", "30 2 30")],
        ]
        assert running.timers("a") == running.timers("b") == []


def test_an_error_in_a_timer_names_it() -> None:
    class Wrong(WithTimers):
        async def on_timer(self, timestamp: int, ctx: Any) -> Any:
            await asyncio.sleep(0)
            raise ValueError("not now")
            yield

    with harness(Wrong()) as running:
        running.process(("a", 1))
        with pytest.raises(FunctionError, match=r"not now(.|\n)*processing key 'a', timer 10"):
            running.set_processing_time(10)


# -- timeout and retries --------------------------------------------------------------------------


class Slow(Async):
    async def pause(self, row: Any) -> None:
        await asyncio.sleep(row.x)


class Hook(Slow):
    def timeout(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 100)
        yield ctx.get_current_key(), "late"


class AsyncHook(Slow):
    async def timeout(self, row: Any, ctx: Any) -> Any:
        await asyncio.sleep(0.001)
        self.count.update(self.count.value() + 100)
        return row.key, "late"


@pytest.mark.parametrize("fn", [Hook(), AsyncHook()])
@pytest.mark.parametrize("timeout", [timedelta(milliseconds=50), Time.milliseconds(50)])
def test_a_row_that_takes_too_long(fn: Any, timeout: Any) -> None:
    began = time.monotonic()
    rows = [("a", 0), ("a", 600), ("b", 0), ("a", 0)]
    assert told(fn, rows, timeout=timeout) == [
        *[("a", "0 1"), ("a", "late"), ("b", "0 1"), ("a", "0 102")],
    ]
    assert time.monotonic() - began < 60


class Stubborn(Async):
    """Its calls don't end as they are told to; counts how often a row was tried."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.left: list[Any] = []

    async def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        try:
            await asyncio.sleep(row.x)
        except BaseException as e:
            if self.way == "another error":
                raise ConnectionError("lost") from e
            if self.way == "cleans up":
                await asyncio.sleep(0.001)
                self.count.update(self.count.value() + 10)
                raise
            if self.way == "a fallback":
                return row.key, "fallback"
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(600)
            try:
                self.count.update(99)
            except StateAccessError as error:
                self.left.append(error)
        return row.key, "answer"

    def timeout(self, row: Any, ctx: Any) -> Any:
        return row.key, f"timeout {self.count.value()}"


@pytest.mark.parametrize("retry", [None, FixedDelayRetryStrategy(3, 1)])
@pytest.mark.parametrize(
    "way, after", [("another error", 1), ("cleans up", 11), ("a fallback", 1), ("goes on", 1)]
)
def test_no_row_outlives_its_timeout(way: str, after: int, retry: Any) -> None:
    """Whatever a call makes of its cancellation: its outcome comes too late."""
    began = time.monotonic()
    rows = [("a", 600), ("b", 0), ("a", 0)]
    given = told(Stubborn(way), rows, timeout=timedelta(milliseconds=50), retry=retry)
    assert given == [("a", f"timeout {after}"), ("b", "answer"), ("a", "answer")]
    # The harness ends what still runs.
    assert time.monotonic() - began < 60


def test_a_call_that_goes_on_after_its_timeout_has_no_key() -> None:
    fn = Stubborn("goes on")
    with harness(fn, timeout=timedelta(milliseconds=20)) as running:
        assert running.process(("a", 9)) == [("a", "timeout 1")]
        running.process(("b", 0))
    assert running.state("a", "count") == 1


def test_without_a_hook_the_query_fails() -> None:
    with pytest.raises(FunctionError, match=r"TimeoutError(.|\n)*key 'a', row Row\(key='a', x=9\)"):
        told(Slow(), [("a", 9)], timeout=timedelta(milliseconds=20))

    async def sleeps(row: Any, ctx: Any) -> None:
        await asyncio.sleep(9)

    with pytest.raises(FunctionError, match="TimeoutError"):
        told(sleeps, [("a", 9)], timeout=timedelta(milliseconds=20))


def test_a_timeout_of_the_function_itself_is_an_error_like_others() -> None:
    class Own(Hook):
        async def pause(self, row: Any) -> None:
            await asyncio.wait_for(asyncio.sleep(9), 0.01)

    with pytest.raises(FunctionError, match="in pause"):
        told(Own(), [("a", 0)], timeout=timedelta(seconds=5))


class Flaky(Async):
    """Fails as often as the row says; counts its attempts, and emits before it fails."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.attempts = ctx.get_map_state(MapStateDescriptor("attempts", "long", "long"))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        attempt = (self.attempts.get(row.x) or 0) + 1
        self.attempts.put(row.x, attempt)
        await asyncio.sleep(0)
        yield row.key, f"attempt {attempt}"
        if attempt <= row.x:
            raise OSError("flaky") if row.key != "fatal" else ValueError("fatal")


def test_retries() -> None:
    retry = FixedDelayRetryStrategy(3, 1)
    rows = [("a", 0), ("a", 2), ("b", 3), ("c", 1)]
    expected = [("a", "attempt 1"), ("a", "attempt 3"), ("b", "attempt 4"), ("c", "attempt 2")]
    assert told(Flaky(), rows, retry=retry) == expected
    exponential = ExponentialBackoffDelayRetryStrategy(3, 1, 2, 2.0)
    assert told(Flaky(), rows, retry=exponential) == expected
    with pytest.raises(FunctionError, match=r"flaky(.|\n)*key 'a', row Row\(key='a', x=4\)"):
        told(Flaky(), [("a", 4)], retry=retry)


def test_a_predicate_of_exceptions() -> None:
    retry = FixedDelayRetryStrategy(9, 1, exception_predicate=lambda e: isinstance(e, OSError))
    assert told(Flaky(), [("a", 2)], retry=retry) == [("a", "attempt 3")]
    with pytest.raises(FunctionError, match="ValueError: fatal"):
        told(Flaky(), [("fatal", 1)], retry=retry)


def test_a_predicate_of_results() -> None:
    def few(results: list[Any]) -> bool:
        return int(results[0][1].split()[1]) < 3

    retry = FixedDelayRetryStrategy(5, 1, result_predicate=few)
    assert told(Flaky(), [("a", 0)], retry=retry) == [("a", "attempt 3")]
    # As often as may be; then the last result counts.
    retry = FixedDelayRetryStrategy(1, 1, result_predicate=few)
    assert told(Flaky(), [("a", 0)], retry=retry) == [("a", "attempt 2")]
    with pytest.raises(FunctionError, match="flaky"):
        told(Flaky(), [("a", 1)], retry=retry)


def test_the_timeout_is_that_of_all_attempts() -> None:
    class Given(Flaky, Hook):
        pass

    options = {"retry": FixedDelayRetryStrategy(100, 20), "timeout": timedelta(seconds=0.2)}
    assert told(Given(), [("a", 99)], **options) == [("a", "late")]


@pytest.mark.parametrize(
    "strategy, delays",
    [
        (FixedDelayRetryStrategy(9, 7), [7, 7, 7, 7]),
        (ExponentialBackoffDelayRetryStrategy(9, 10, 50, 2.0), [10, 20, 40, 50]),
        (ExponentialBackoffDelayRetryStrategy(9, 10, 50, 1.5), [10, 15, 22, 33]),
    ],
)
def test_delays(strategy: Any, delays: list[int]) -> None:
    assert [strategy.get_backoff_time_millis(i) for i in range(1, 5)] == delays
    assert strategy.can_retry(9) and not strategy.can_retry(10)


def test_a_delay_is_never_too_large_for_a_number() -> None:
    strategy = ExponentialBackoffDelayRetryStrategy(10**6, 1, 50, 9.0)
    assert strategy.get_backoff_time_millis(9999) == 50


# -- declarations ---------------------------------------------------------------------------------


class NotAsync(KeyedProcessFunction):
    async def process_element(self, row: Any, ctx: Any) -> None:
        pass


class Shadowed(Async):
    def __init__(self) -> None:
        self.timeout = 5  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(
    "fn, options, message",
    [
        (NotAsync(), {}, "NotAsync.process_element is async: derive the class from Async"),
        (Plain(), {"capacity": 5}, "capacity, timeout, retry and ordered are for"),
        (Shadowed(), {}, "Shadowed.timeout is the method that is called after the timeout, got 5"),
        (Async(), {"capacity": 0}, "capacity is a number of rows of at least 1, got 0"),
        (Async(), {"timeout": 3}, "timeout must be a timedelta or a Time, got 3"),
        (Async(), {"timeout": timedelta(0)}, "longer than nothing"),
        (Async(), {"retry": 3}, r"FixedDelayRetryStrategy\(3, 100\), got 3"),
    ],
)
def test_declarations(fn: Any, options: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        harness(fn, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedDelayRetryStrategy(0, 1),
        lambda: FixedDelayRetryStrategy(1, -1),
        lambda: ExponentialBackoffDelayRetryStrategy(1, 1, 1, 0.5),
    ],
)
def test_strategies_that_make_no_sense(make: Any) -> None:
    with pytest.raises(ValueError, match="got"):
        make()


def test_open_that_fails_on_the_driver_leaves_no_task() -> None:
    class Wrong(Opened):
        async def open(self, ctx: Any) -> None:  # type: ignore[override]
            await super().open(ctx)
            await asyncio.sleep(0.001)
            raise OSError("no server")

    Opened.closed.clear()
    with pytest.raises(DeclarationError, match=r"open\(\) failed on the driver.*no server"):
        harness(Wrong())
    assert Opened.closed == ["beat"]


def test_a_snapshot_goes_on_with_other_calls() -> None:
    with harness(Async(), retry=FixedDelayRetryStrategy(1, 1, lambda r: False)) as running:
        running.process(("a", 1))
        snapshot = running.snapshot()
    restored = KeyedProcessHarness.restore(snapshot, Slow(), timeout=timedelta(seconds=0.02))
    with contextlib.closing(restored):
        assert restored.process(("a", 0)) == [("a", "0 2")]
        with pytest.raises(FunctionError, match="TimeoutError"):
            restored.process(("a", 9))
