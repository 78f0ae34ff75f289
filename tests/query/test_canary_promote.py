"""New code in the place of the old: each micro-batch once, undone if it fails, and cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    Canary,
    CheckpointError,
    ConfigurationError,
    ElasticQuery,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from keystate.live.canary import promotion
from pyspark.errors import StreamingQueryException

from tests.drawn import drawn
from tests.query.test_canary import Count, Counting, Fails, left

pytestmark = pytest.mark.usefixtures("keeps_memory")


class Renamed(Count):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.at = ctx.get_state(ValueStateDescriptor("at", "long"))


class RenamedFails(Renamed, Fails):
    pass


class NewStateFails(Fails):
    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.more = ctx.get_state(ValueStateDescriptor("more", "string"))


def rename(editor: Any) -> None:
    editor.rename("count", "total")


class FailsLate(Count):
    def step_of(self, row: Any) -> int:
        if row.n == 6:
            raise ValueError("six")
        return 1


class Died(BaseException):
    """As if the driver had died: nothing is undone."""


class Production:
    """The query, in a sink that knows micro-batches by their ids."""

    def __init__(self, counting: Counting, running: list[Any]) -> None:
        self.counting, self.running = counting, running

    def start(self, fn: Any) -> Callable[[str], Any]:
        def started(checkpoint: str) -> Any:
            query = self.counting.start(
                fn, checkpoint, self.counting.old, processingTime="0 seconds"
            )
            self.running.append(query)
            return query

        return started

    def canary(self, query: Any, fn: Any, **options: Any) -> Canary:
        return keystate.canary(query, self.counting.start_new(fn), **options)

    def go_on(self, query: Any) -> None:
        """Some more rows, and all that there were once."""
        self.counting.feed()
        query.processAllAvailable()
        self.counting.check()


@pytest.fixture
def production(
    request: Any, stream: Any, running: list[Any], settings: Callable[..., None]
) -> Production:
    settings(**{FORMAT_KEY: getattr(request, "param", "2")})
    made = Production(Counting(stream("key long, n long")), running)
    made.counting.feed(2)
    made.start(Count())(made.counting.checkpoint).processAllAvailable()
    return made


def test_new_code_goes_on(spark: Any, production: Production) -> None:
    (old,) = spark.streams.active
    counting = production.counting
    canary = production.canary(old, Count())
    counting.feed(3)
    with pytest.raises(ValueError, match="edit="):
        canary.promote(production.start(Count()), to=f"{counting.checkpoint}2")
    new = canary.promote(production.start(Count()))
    assert canary.query is new and new.isActive and not old.isActive
    assert (new.id, new.runId != old.runId) == (old.id, True)
    production.go_on(new)
    # A file a micro-batch, but that Spark's file source may have logged one as the old query was
    # stopped, which then comes together with the next one.
    assert sorted(counting.old) in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5])
    commits = Path(counting.checkpoint, "commits").glob("[0-9]*")
    assert sorted(counting.old) == sorted(int(path.name) for path in commits)
    assert left(counting) == []
    with pytest.raises(ConfigurationError, match="KEYSTATE_CANNOT_CANARY"):
        canary.promote(production.start(Count()))


def test_an_elastic_query_is_promoted_to_an_elastic_query(
    spark: Any, production: Production
) -> None:
    counting = production.counting
    for query in spark.streams.active:
        query.stop()

    def start(fn: Any) -> Callable[[str], Any]:
        def started(checkpoint: str) -> Any:
            made = keystate.elastic(lambda: production.start(fn)(checkpoint), spark=spark)
            production.running.append(made)
            return made

        return started

    old = start(Count())(counting.checkpoint)
    production.go_on(old)
    canary = production.canary(old, Count())
    counting.feed()
    new = canary.promote(start(Count()), start_old=start(Count()))
    assert isinstance(new, ElasticQuery) and canary.query is new and not old.isActive
    production.go_on(new)
    assert new.rescale(3).after == 3
    production.go_on(new)
    # One that fails goes back to an elastic one.
    again = production.canary(new, Count())
    counting.feed()
    new.processAllAvailable()
    new.stop()
    counting.fed.feed([(1, 3)])
    with pytest.raises(StreamingQueryException, match="three"):
        again.promote(start(Fails()), start_old=start(Count()))
    assert isinstance(again.query, ElasticQuery) and again.query.isActive


def test_it_is_undone(spark: Any, production: Production) -> None:
    (old,) = spark.streams.active
    counting = production.counting
    canary = production.canary(old, Count())
    counting.feed()
    old.processAllAvailable()
    old.stop()
    # It fails in its first micro-batch, and declares another state.
    counting.feed()
    with pytest.raises(StreamingQueryException, match="three"):
        canary.promote(production.start(NewStateFails()), start_old=production.start(Count()))
    assert canary.query is not old and canary.query.isActive
    production.go_on(canary.query)
    # It goes elsewhere; and this time nobody has said how the old code is started.
    elsewhere = str(counting.fed.checkpoint) + "-elsewhere"
    with pytest.raises(ConfigurationError, match=r"KEYSTATE_CANNOT_CANARY.*-elsewhere"):
        canary.promote(lambda _: production.start(Count())(elsewhere))
    assert spark.streams.active == []
    canary.drop()


@pytest.mark.parametrize("production", drawn("changes of the state", ["1", "2"], 1), indirect=True)
def test_with_changes_of_the_state(spark: Any, production: Production) -> None:
    (old,) = spark.streams.active
    counting = production.counting
    to = f"{counting.checkpoint}-2"
    canary = production.canary(old, Renamed(), edit=rename)
    with pytest.raises(ValueError, match="to="):
        canary.promote(production.start(Renamed()))
    taken = str(Path(counting.checkpoint).with_name("input"))
    with pytest.raises(CheckpointError, match="KEYSTATE_CANNOT_CANARY"):
        canary.promote(production.start(Renamed()), start_old=production.start(Count()), to=taken)
    assert old.isActive and canary.query is old
    # It fails in its first micro-batch, which the old code runs then.
    counting.feed()
    old.processAllAvailable()
    old.stop()
    counting.feed()
    with pytest.raises(StreamingQueryException, match="three"):
        canary.promote(production.start(RenamedFails()), start_old=production.start(Count()), to=to)
    assert admin.moved_to(counting.checkpoint) is None and not Path(to).exists()
    assert (Path(counting.checkpoint) / "offsets" / "3").exists()
    production.go_on(canary.query)

    begun: list[bytes] = []

    def start(checkpoint: str) -> Any:
        begun.extend(path.read_bytes() for path in Path(checkpoint).glob("offsets/6"))
        return production.start(Renamed())(checkpoint)

    # The old code has begun a micro-batch that it can't end.
    counting.feed()
    canary.query.processAllAvailable()
    canary.query.stop()
    counting.feed()
    dies = production.start(FailsLate())(counting.checkpoint)
    with pytest.raises(StreamingQueryException, match="six"):
        dies.processAllAvailable()
    pending = (Path(counting.checkpoint) / "offsets" / "6").read_bytes()
    new = canary.promote(start, to=to)
    # The new code was given it.
    assert begun == [pending]
    production.go_on(new)
    assert sorted(counting.old) == list(range(8))
    assert left(counting) == ["checkpoint-2"]
    assert (admin.moved_to(counting.checkpoint) or "").endswith(to)
    for refused in (
        lambda: admin.inspect(counting.checkpoint),
        lambda: production.canary(counting.checkpoint, Count()),
        lambda: production.canary(to, Count(), at=counting.checkpoint),
    ):
        with pytest.raises(CheckpointError, match=r"KEYSTATE_(CHECKPOINT_MOVED|CANNOT_CANARY)"):
            refused()
    stale = production.start(Count())(counting.checkpoint)
    with pytest.raises(StreamingQueryException, match="KEYSTATE_CHECKPOINT_MOVED"):
        stale.processAllAvailable()


def test_keys_that_are_to_be_forgotten(
    spark: Any, production: Production, monkeypatch: Any
) -> None:
    """Requests go to the copy, and back if that is undone, whenever they come."""
    (old,) = spark.streams.active
    counting = production.counting
    counting.feed()
    old.processAllAvailable()
    old.stop()
    checkpoint, to = counting.checkpoint, f"{counting.checkpoint}-2"
    admin.forget(checkpoint, key=0)

    def while_written(*arguments: Any) -> Any:
        batch = write_successor(*arguments)
        admin.forget(checkpoint, key=1)
        return batch

    write_successor = promotion.write_successor
    monkeypatch.setattr(promotion, "write_successor", while_written)

    def asked_then_fails(copy: str) -> Any:
        admin.forget(copy, key=2)
        return production.start(RenamedFails())(copy)

    counting.feed()
    canary = keystate.canary(checkpoint, counting.start_new(Renamed()), edit=rename)
    with pytest.raises(StreamingQueryException, match="three"):
        canary.promote(asked_then_fails, to=to)
    requests = Path(checkpoint, "_keystate/forget").glob("*.request")
    assert len(list(requests)) == 3
    new = canary.promote(production.start(Renamed()), to=to)
    counting.feed()
    new.processAllAvailable()
    rows = [row for batch in sorted(counting.old) for row in counting.old[batch]]
    counts = {key: [count for k, count in rows if k == key] for key in range(4)}
    assert all(counts[key][-1] < counting.rounds for key in (0, 1, 2)), counts
    assert counts[3] == list(range(1, counting.rounds + 1))


def test_cut_off_anywhere(spark: Any, production: Production, monkeypatch: Any) -> None:
    """Another driver goes on where the checkpoint is, with the code that fits it."""
    (query,) = spark.streams.active
    counting = production.counting
    to = f"{counting.checkpoint}-2"

    def die(*_: Any) -> Any:
        raise Died

    def once_done(*arguments: Any) -> Any:
        exchange(*arguments)
        die()

    exchange = promotion.Promotion._exchange
    steps: list[tuple[Any, str, Callable[..., Any]]] = [
        (promotion, "write_successor", die),
        (promotion.Promotion, "_exchange", die),
        (promotion.Promotion, "_exchange", once_done),
    ]
    for at, name, stand_in in steps:
        canary = production.canary(query, Renamed(), edit=rename)
        with monkeypatch.context() as patched, pytest.raises(Died):
            patched.setattr(at, name, stand_in)
            canary.promote(production.start(Renamed()), to=to)
        moved = admin.moved_to(counting.checkpoint)
        assert (moved is not None) == (stand_in is not die), name
        if Path(to).exists():
            other, code = (
                (counting.checkpoint, "KEYSTATE_CHECKPOINT_MOVED")
                if moved
                else (to, "KEYSTATE_PROMOTION_UNFINISHED")
            )
            counting.feed()  # without rows nothing is planned, and nothing fails
            refused = production.start(Count() if moved else Renamed())(other)
            with pytest.raises(StreamingQueryException, match=code):
                refused.processAllAvailable()
        query = production.start(Renamed() if moved else Count())(moved or counting.checkpoint)
        production.go_on(query)
    canary.drop()
    query.stop()
    # The next start finds that it has gone on by itself, whatever is in the old place then.
    query = production.start(Renamed())(to)
    production.go_on(query)
    query.stop()
    admin.delete(counting.checkpoint)
    query = production.start(Renamed())(to)
    production.go_on(query)
    query.stop()
    # Nobody takes it for what was left of a promotion.
    with pytest.raises(CheckpointError, match="KEYSTATE_CANNOT_CANARY"):
        keystate.canary(to, production.start(Count()), at=to)
    assert admin.verify(to) == []
