"""Queries whose partitions change while they run: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    ConfigurationError,
    ElasticQuery,
    KeyedProcessFunction,
    ScalingPolicy,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm import bridge
from keystate._types.waiting import wait_until
from keystate.checkpoints.rescale_requests import Withdrawn
from keystate.live.elastic.elastic import ON_RESTART, PARTITIONS
from pyspark.errors import StreamingQueryException

KEYS = 10


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.key < 0:
            raise ValueError("negative")
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


class Counting:
    """A query that counts keys, and what its micro-batches gave; the last run of each counts."""

    def __init__(self, fed: Any) -> None:
        self.fed = fed
        self.batches: dict[int, list[tuple[int, int]]] = {}
        self.started_with: list[str | None] = []
        self.fails_with: str | None = None
        self.seconds = 0.0

    def start(self) -> Any:
        partitions = self.fed._spark.conf.get(PARTITIONS)
        self.started_with.append(partitions)
        if self.fails_with in (partitions, "all"):
            raise OSError("no such queue")

        def take(df: Any, batch: int) -> None:
            time.sleep(self.seconds)
            self.batches[batch] = [tuple(row) for row in df.collect()]

        counted = keystate.keyed(self.fed.source(), "key").process(Count(), "key long, count long")
        writer = counted.writeStream.foreachBatch(take).queryName("counting")
        return writer.option("checkpointLocation", str(self.fed.checkpoint)).start()

    def feed(self, rounds: int) -> None:
        self.fed.feed(*([(key,) for key in range(KEYS)] for _ in range(rounds)))

    def check(self, rounds: int) -> None:
        """Each count of each key came once, in order."""
        rows = [row for batch in sorted(self.batches) for row in self.batches[batch]]
        for key in range(KEYS):
            assert [count for k, count in rows if k == key] == list(range(1, rounds + 1)), key


@pytest.fixture
def counting(stream: Any, settings: Callable[..., None]) -> Counting:
    settings(**{PARTITIONS: "2"})
    return Counting(stream("key long"))


@pytest.fixture
def elastic(spark: Any, counting: Counting) -> Iterator[Callable[..., ElasticQuery]]:
    made: list[ElasticQuery] = []

    def start(*arguments: Any, **options: Any) -> ElasticQuery:
        made.append(keystate.elastic(counting.start, *arguments, spark=spark, **options))
        return made[-1]

    yield start
    for query in made:
        query.stop()


@pytest.mark.usefixtures("keeps_memory")
def test_partitions_change_while_rows_come(
    spark: Any, counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    feeding = threading.Event()

    def feed() -> None:
        for _ in range(20):
            counting.feed(1)
            time.sleep(0.1)
        feeding.set()

    query = elastic()
    waiting = threading.Thread(target=query.awaitTermination)
    waiting.start()
    feeder = threading.Thread(target=feed)
    feeder.start()
    first_run, first_id = query.runId, query.id
    after = [3, 1, 4]
    for partitions in after:
        time.sleep(0.4)
        assert query.rescale(partitions).seconds is not None
        assert query.isActive and query.partitions == partitions and query.name == "counting"
    feeder.join()
    query.processAllAvailable()
    counting.check(20)
    done = query.rescales
    assert [(one.before, one.after) for one in done] == [(2, 3), (3, 1), (1, 4)]
    assert all(one.error is None and one.reason == "asked for" for one in done)
    assert query.id == first_id and query.runId != first_run
    progress = query.recentProgress
    seen = [p.stateOperators[0].numShufflePartitions for p in progress if p.numInputRows]
    assert [n for i, n in enumerate(seen) if i == 0 or seen[i - 1] != n] == [2, 3, 1, 4]
    assert sum(p.numInputRows for p in progress) == 20 * KEYS
    # The settings are the session's, and stay.
    assert counting.started_with == ["2", "3", "1", "4"]
    assert spark.conf.get(PARTITIONS) == "2" and spark.conf.get(ON_RESTART, None) is None
    assert query.rescale(4).before == 4 and len(query.rescales) == 3
    # Changes have not ended it for those who wait for its end.
    assert waiting.is_alive() and query.awaitTermination(0.1) is False
    query.stop()
    waiting.join(30)
    assert not waiting.is_alive() and not query.isActive and query.exception() is None
    assert query.awaitTermination(1) is True
    with pytest.raises(ConfigurationError, match="KEYSTATE_QUERY_HAS_ENDED"):
        query.rescale(2)

    # Another start goes on with as many as there were, whatever the session says.
    counting.feed(1)
    again = elastic()
    again.processAllAvailable()
    assert again.partitions == 4
    counting.check(21)


@pytest.mark.turns
def test_a_change_before_the_first_micro_batch(
    counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    query = elastic()
    assert query.rescale(3).batch_id is None
    counting.feed(1)
    query.processAllAvailable()
    assert query.rescale(2).batch_id == 0


def test_another_process_asks(
    spark: Any, counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    checkpoint = str(counting.fed.checkpoint)
    query = elastic(poll_seconds=0.02)
    counting.feed(1)
    query.processAllAvailable()
    folder = counting.fed.checkpoint / "_keystate" / "rescale"
    wait_until((folder / "listener").exists, "a listener")
    command = [sys.executable, "-m", "keystate", "rescale", checkpoint, "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "rescaled from 2 to 3 partitions" in done.stdout, done.stderr
    counting.feed(1)
    query.processAllAvailable()
    assert query.partitions == 3 and [(one.before, one.after) for one in query.rescales] == [(2, 3)]
    # This process asks in the same way.
    assert admin.rescale(checkpoint, 1, spark=spark) == 3
    with pytest.raises(CheckpointError, match="can't be rescaled") as e:
        admin.rescale(checkpoint, 1000, spark=spark)
    assert e.value.code == "KEYSTATE_PARALLELISM_TOO_HIGH"
    counting.fails_with = "2"
    with pytest.raises(CheckpointError, match="no such queue") as e:
        admin.rescale(checkpoint, 2, spark=spark)
    assert e.value.code == "KEYSTATE_RESCALE_UNDONE" and query.partitions == 1
    counting.feed(1)
    query.processAllAvailable()
    counting.check(3)
    query.stop()
    assert [path.name for path in folder.iterdir() if path.suffix != ".crc"] == []
    # Nobody listens now: the checkpoint is changed here.
    assert admin.rescale(checkpoint, 4, spark=spark) == 1


def test_who_asks_during_a_change_does_not_wait_for_it(
    counting: Counting, elastic: Callable[..., ElasticQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = elastic()
    counting.feed(1)
    query.processAllAvailable()
    starts = threading.Event()
    may_go_on = threading.Event()
    begin = query._begin

    def begin_slowly(partitions: int | None) -> Any:
        starts.set()
        assert may_go_on.wait(60)
        return begin(partitions)

    monkeypatch.setattr(query, "_begin", begin_slowly)
    change = threading.Thread(target=query.rescale, args=(3,))
    change.start()
    assert starts.wait(60)
    assert query.isActive and query.awaitTermination(0.1) is False
    may_go_on.set()
    change.join(60)
    assert query.isActive and query.partitions == 3


def test_nobody_answers(
    spark: Any, counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    """Its driver is too busy, or its machine is gone: that can't be told from here."""
    checkpoint = str(counting.fed.checkpoint)
    query = elastic()
    counting.feed(1)
    query.processAllAvailable()
    folder = counting.fed.checkpoint / "_keystate" / "rescale"
    folder.mkdir()
    (folder / "listener").touch()
    with pytest.raises(CheckpointError, match="KEYSTATE_NO_RESCALE_ANSWER"):
        admin.rescale(checkpoint, 3, wait_seconds=0.5, spark=spark)
    assert [path.name for path in folder.iterdir()] == ["listener"]


def test_a_change_that_fails_is_undone(
    counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    query = elastic()
    counting.feed(1)
    query.processAllAvailable()
    # What starts it fails.
    counting.fails_with = "3"
    with pytest.raises(OSError, match="no such queue"):
        query.rescale(3)
    counting.feed(1)
    query.processAllAvailable()
    # The query can't have so many.
    with pytest.raises(CheckpointError, match="KEYSTATE_PARALLELISM_TOO_HIGH"):
        query.rescale(1000)
    counting.feed(1)
    query.processAllAvailable()
    counting.check(3)
    assert [one.error and one.error.split(":")[0] for one in query.rescales] == [
        "OSError",
        "CheckpointError",
    ]
    assert query.partitions == 2 and query.isActive
    with pytest.raises(ValueError, match="at least 1"):
        query.rescale(0)


def test_a_change_that_can_not_be_undone_ends_it_with_the_error(
    spark: Any, counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    """Who watches it sees a failure, no stop; and who asked is told before the driver ends."""
    query = elastic(poll_seconds=0.02)
    counting.feed(1)
    query.processAllAvailable()
    listener = counting.fed.checkpoint / "_keystate" / "rescale" / "listener"
    wait_until(listener.exists, "a listener")
    counting.fails_with = "all"
    told: list[CheckpointError] = []

    def ask() -> None:
        with pytest.raises(CheckpointError) as e:
            admin.rescale(str(counting.fed.checkpoint), 3, spark=spark)
        told.append(e.value)

    asker = threading.Thread(target=ask)
    asker.start()
    both = r"neither with 3 partitions: OSError: no such queue; nor with the 2 that it had: OSError"
    with pytest.raises(ConfigurationError, match=both) as ended:
        query.awaitTermination()
    assert ended.value.code == "KEYSTATE_QUERY_HAS_ENDED"
    assert not query._listener.is_alive()
    asker.join(10)
    assert [one.code for one in told] == ["KEYSTATE_QUERY_HAS_ENDED"] and "no such" in str(told[0])
    assert not query.isActive and query.exception() is ended.value
    (change,) = query.rescales
    assert change.error == "OSError: no such queue"
    with pytest.raises(ConfigurationError, match="KEYSTATE_QUERY_HAS_ENDED"):
        query.rescale(3)
    # A supervisor starts it again.
    counting.fails_with = None
    counting.feed(1)
    elastic().processAllAvailable()
    counting.check(2)


def test_a_stop_that_takes_too_long_ends_it_with_the_error(
    counting: Counting, elastic: Callable[..., ElasticQuery], settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.streaming.stopTimeout": "200ms"})
    query = elastic()
    counting.feed(1)
    query.processAllAvailable()
    counting.seconds = 3.0
    counting.feed(1)
    wait_until(lambda: not query.status["message"].startswith("Waiting"), "a micro-batch")
    time.sleep(1)
    with pytest.raises(ConfigurationError, match="from 2 to 3 partitions and did not end in time"):
        query.rescale(3, timeout_seconds=0.1)
    with pytest.raises(ConfigurationError, match="did not end in time"):
        query.awaitTermination(60)
    assert not query.isActive and "did not end in time" in str(query.exception())
    (change,) = query.rescales
    assert change.after == 3 and "TimeoutException" in str(change.error)
    time.sleep(counting.seconds)  # Spark calls it ended as soon as it is to end
    query.stop()
    assert not query.isActive


@pytest.mark.parametrize("way", ["ctrl-c", "killed", "out of time", "withdrawn at the border"])
def test_nobody_waits_any_more_for_what_was_asked(
    spark: Any, way: str, counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    """Then it is not done, also not by the next driver."""
    checkpoint = str(counting.fed.checkpoint)
    never = elastic(poll_seconds=3600)
    counting.feed(1)
    never.processAllAvailable()
    folder = counting.fed.checkpoint / "_keystate" / "rescale"
    folder.mkdir()
    (folder / "listener").touch()
    if way in ("ctrl-c", "killed"):
        command = [sys.executable, "-m", "keystate", "rescale", checkpoint, "3"]
        asker = subprocess.Popen(command, stderr=subprocess.PIPE)
        while not (requests := list(folder.glob("*.request"))):
            assert asker.poll() is None
            time.sleep(0.05)
        jvm = json.loads(requests[0].read_text())["asker"]["pid"]
        # The request is there a moment before its asker waits. If that is interrupted in between,
        # the request stays, and is known as that of a process that has ended.
        time.sleep(3 if way == "ctrl-c" else 0)
        asker.send_signal(signal.SIGINT if way == "ctrl-c" else signal.SIGKILL)
        asker.communicate(timeout=60)
        if way == "killed":
            wait_until(lambda: not Path(f"/proc/{jvm}").exists(), "the asker's end")
    elif way == "out of time":
        assert bridge.call(spark, "askRescale", checkpoint, 3, 100)
        time.sleep(0.2)
    else:
        request = bridge.call(spark, "askRescale", checkpoint, 3, 60_000)
        assert bridge.call(spark, "isRescaleWanted", checkpoint, request)
        bridge.call(spark, "withdrawRescale", checkpoint, request)
        with pytest.raises(Withdrawn):
            never._rescale_if(3, lambda: bridge.call(spark, "isRescaleWanted", checkpoint, request))
        assert never.isActive and never.rescales == []
    assert len(list(folder.glob("*.request"))) == (way in ("killed", "out of time"))
    never.stop()
    query = elastic(poll_seconds=0.02)
    counting.feed(1)
    wait_until(
        lambda: (folder / "listener").exists() and not list(folder.glob("*.request")),
        "a listener that has no request",
    )
    time.sleep(0.5)
    query.processAllAvailable()
    assert query.partitions == 2 and query.rescales == []
    assert [path.name for path in folder.iterdir() if path.suffix != ".crc"] == ["listener"]
    counting.check(2)


def test_an_error_of_the_function_ends_it(
    counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    query = elastic(ScalingPolicy())
    counting.fed.feed([(-1,)])
    with pytest.raises(StreamingQueryException, match="negative"):
        query.awaitTermination()
    assert not query.isActive and "negative" in str(query.exception())


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.usefixtures("keeps_memory")
def test_it_follows_the_load(
    dry_run: bool, counting: Counting, elastic: Callable[..., ElasticQuery]
) -> None:
    policy = ScalingPolicy(
        target_seconds=0.01, max_partitions=4, micro_batches=2, cool_down_seconds=60
    )
    query = elastic(policy, dry_run=dry_run, poll_seconds=0.1)
    deadline = time.monotonic() + 60
    rounds = 0
    while not query.rescales:
        assert time.monotonic() < deadline
        counting.feed(1)
        rounds += 1
        query.processAllAvailable()
    (change, *_) = query.rescales
    assert (change.before, change.after) == (2, 4) and "0.01 s is the target" in change.reason
    assert (change.seconds is None) == dry_run
    query.processAllAvailable()
    counting.check(rounds)
    assert query.partitions == (2 if dry_run else 4)


def test_without_a_session(monkeypatch: Any) -> None:
    monkeypatch.setattr("keystate.live.elastic.elastic.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(ConfigurationError, match="needs a Spark session"):
        keystate.elastic(lambda: None)
