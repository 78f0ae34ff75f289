"""The cases of two inputs over the harness and over queries; and what only the harness does."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import (
    CoFlatMapFunction,
    CoMapFunction,
    DeclarationError,
    FunctionError,
    KeyedCoProcessFunction,
)
from keystate._jvm.session import FORMAT_KEY
from keystate.testing import KeyedTwoInputHarness

from tests.contract.co_process_cases import (
    CASES,
    FIRST,
    OUTPUT,
    SECOND,
    Case,
    SharedState,
    by_key,
    fed,
    one,
    two,
    watermarks,
)
from tests.drawn import drawn
from tests.two_streams import TwoStreams


def harness_of(case: Case, **options: Any) -> KeyedTwoInputHarness:
    return KeyedTwoInputHarness(
        case.fn, FIRST, "key", SECOND, "id", OUTPUT, event_time1="time", event_time2="time",
        **case.options, **options,
    )  # fmt: skip


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("name", CASES)
def test_harness(name: str, parallelism: int) -> None:
    case = CASES[name]
    harness = harness_of(case, parallelism=parallelism)
    late = 0
    for batch, rows, watermark in zip(case.batches, fed(case), watermarks(case)):
        emitted = harness.process_batch(*rows, watermark=watermark)
        assert by_key(emitted) == batch.expected
        late += batch.late
        assert harness.num_late_rows == late
        # As a restart does, with more subtasks or fewer.
        parallelism = parallelism % 5 + 1
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
        harness.close()
        harness = KeyedTwoInputHarness.restore(snapshot, case.fn, parallelism=parallelism)
        harness._dropped = late
    harness.close()


def build(case: Case) -> Callable[[Any, Any], Any]:
    def connected(first: Any, second: Any) -> Any:
        streams = keystate.keyed(first.withWatermark("time", "0 seconds"), "key").connect(
            keystate.keyed(second.withWatermark("time", "0 seconds"), "id")
        )
        if isinstance(case.fn, CoMapFunction):
            return streams.map(case.fn, OUTPUT, **case.options)
        if isinstance(case.fn, CoFlatMapFunction):
            return streams.flat_map(case.fn, OUTPUT, **case.options)
        return streams.process(case.fn, OUTPUT, **case.options)

    return connected


@pytest.mark.parametrize(
    ("backend", "checkpoint_format"),
    drawn(
        "two inputs", [("hashmap", "1"), ("hashmap", "2"), ("rocksdb", "1"), ("rocksdb", "2")], 2
    ),
)
@pytest.mark.parametrize("name", CASES)
def test_query(
    name: str,
    backend: str,
    checkpoint_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    case = CASES[name]
    streams = TwoStreams(stream, FIRST, SECOND)
    streams.feed(*fed(case))
    emitted = [by_key(rows) for rows in streams.run(build(case))]
    # A watermark that has moved on may have a micro-batch without rows at the end.
    expected = [batch.expected for batch in case.batches]
    assert emitted[: len(expected)] == expected
    assert not any(emitted[len(expected) :])
    dropped = sum(p.stateOperators[0].numRowsDroppedByWatermark for p in streams.progress)
    assert dropped == sum(batch.late for batch in case.batches)


@pytest.mark.parametrize("name", CASES)
def test_batch(name: str, spark: Any) -> None:
    """A batch query has all rows in one, no late ones, and fires all timers at its end."""
    case = CASES[name]
    if "timers" in name or "WM" in str(case.batches):
        pytest.skip("what it emits depends on micro-batches")
    batch = case.batches[0]
    first = spark.createDataFrame(batch.first, FIRST).repartition(3)
    second = spark.createDataFrame(batch.second, SECOND).repartition(2)
    if not case.options:
        # In a batch too the order of rows is that of partitions: it is given.
        first, second = first.coalesce(1).sort("number"), second.coalesce(1).sort("text")
    assert by_key(build(case)(first, second).collect()) == batch.expected


class Failing(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield row.key, "fine"

    def process_element2(self, row: Any, ctx: Any) -> Any:
        raise ValueError("mine")


def test_the_harness_tells_of_errors_and_late_rows() -> None:
    with harness_of(Case(Failing(), [])) as harness:
        assert harness.process1(("a", 1, None), timestamp=5) == [("a", "fine")]
        with pytest.raises(FunctionError, match=r"key 'a', row .* of input 2") as error:
            harness.process2(two("a", "x"))
        assert "mine" in str(error.value)
        harness.advance_watermark(100)
        assert harness.process1(one("a", 1, 100)) == []
        assert harness.num_late_rows == 1
        with pytest.raises(TypeError, match="does not fit the second input schema"):
            harness.process2(("no time", 1, 2))


def test_the_harness_fires_processing_time_timers() -> None:
    class Alarm(KeyedCoProcessFunction):
        def process_element1(self, row: Any, ctx: Any) -> Any:
            ctx.timer_service().register_processing_time_timer(row.number)

        def process_element2(self, row: Any, ctx: Any) -> Any:
            now = ctx.timer_service().current_processing_time()
            ctx.timer_service().register_processing_time_timer(now + 5)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.get_current_key(), f"{timestamp} {ctx.time_domain().name}"

    with harness_of(Case(Alarm(), [])) as harness:
        second = [two("b", "x"), two("a", "x")]
        fired = harness.process_batch([one("a", 7)], second, processing_time=10)
        assert fired == [("a", "7 PROCESSING_TIME")]
        assert [t for _, t in harness.timers("a")] == [15]
        fired = sorted(harness.set_processing_time(15))
        assert fired == [(k, "15 PROCESSING_TIME") for k in ("a", "b")]


def test_what_is_wrong_for_the_harness() -> None:
    fn, rest = SharedState(), (OUTPUT,)
    with pytest.raises(DeclarationError, match="must have the same types"):
        KeyedTwoInputHarness(fn, FIRST, "key", SECOND, "time", *rest)
    with pytest.raises(DeclarationError, match="no column 'key' in the input"):
        KeyedTwoInputHarness(fn, FIRST, "key", SECOND, "key", *rest)
    with pytest.raises(DeclarationError, match="no column 'number' in the input"):
        KeyedTwoInputHarness(fn, FIRST, "key", SECOND, "id", *rest, ordered_by="number")
    with pytest.raises(DeclarationError, match="expected a KeyedCoProcessFunction"):
        KeyedTwoInputHarness(print, FIRST, "key", SECOND, "id", *rest)


def test_arguments_of_one_input_say_what_they_are_called_here() -> None:
    case = next(iter(CASES.values()))
    with pytest.raises(TypeError, match="event_time1 and event_time2"):
        KeyedTwoInputHarness(case.fn, FIRST, "key", SECOND, "id", OUTPUT, event_time="time")
    with pytest.raises(TypeError, match=r"no argument 'colour'$"):
        KeyedTwoInputHarness(case.fn, FIRST, "key", SECOND, "id", OUTPUT, colour="red")
