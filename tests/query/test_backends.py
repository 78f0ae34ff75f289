"""State backends: what they are configured with, and that a query can change its own."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import (
    AutoStateBackend,
    ConfigurationError,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    PredefinedOptions,
    SortedMapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

from tests.drawn import drawn

HEAP, ROCKSDB = HashMapStateBackend(), EmbeddedRocksDBStateBackend(memory_mb=32)
#: No state fits on the heap, so each store moves in its first micro-batch.
AUTO = AutoStateBackend(1e-9, ROCKSDB)
CUSTOM = CustomStateBackend("keystate.backend.heap.HeapStateBackendFactory")


class Everything(KeyedProcessFunction):
    """Keeps the numbers of a key in three kinds of state, and removes some of them."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "long"))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        last = self.last.value()
        self.last.update(None if row.x % 5 == 0 else row.x)
        self.all.add(row.x)
        self.sorted[row.x % 20] = row.x
        if row.x % 7 == 0:
            self.sorted.remove_range(5, 15)
        yield row.key, last, list(self.all), [tuple(entry) for entry in self.sorted.items()]


OUTPUT = "key long, last long, all array<long>, sorted array<struct<k: long, v: long>>"


class Model:
    """The same with Python's own collections."""

    def __init__(self) -> None:
        self.keys: dict[int, tuple[list[int | None], list[int], dict[int, int]]] = {}

    def apply(self, key: int, x: int) -> Any:
        last, everything, ordered = self.keys.setdefault(key, ([None], [], {}))
        before = last[0]
        last[0] = None if x % 5 == 0 else x
        everything.append(x)
        ordered[x % 20] = x
        if x % 7 == 0:
            for gone in [k for k in ordered if 5 <= k < 15]:
                del ordered[gone]
        return key, before, list(everything), sorted(ordered.items())


@pytest.mark.parametrize("checkpoint_format", drawn("other backends", ["1", "2"], 1))
def test_a_query_changes_its_backend_and_its_parallelism(
    checkpoint_format: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    rng, model = random.Random(7), Model()
    fed = stream("key long, x long")
    runs = [(HEAP, 3), (ROCKSDB, 3), (AUTO, 2), (HEAP, 2), (CUSTOM, 4), (ROCKSDB, 4), (AUTO, 4)]
    for backend, partitions in runs:
        settings(**backend.conf(), **{"spark.sql.shuffle.partitions": str(partitions)})
        rows = [(rng.randrange(25), rng.randrange(1000)) for _ in range(120)]
        expected = [model.apply(*row) for row in rows]
        fed.feed(rows[:80], rows[80:])
        emitted = fed.run(
            lambda df: keystate.keyed(df, "key", max_parallelism=16).process(Everything(), OUTPUT)
        )
        got = [(r.key, r.last, r.all, [tuple(e) for e in r.sorted]) for r in emitted]
        assert sorted(map(repr, got)) == sorted(map(repr, expected)), (backend, partitions)
        last = fed.progress[-1].stateOperators[0].customMetrics
        assert backend is AUTO or last["keystateMoves"] == 0
        # By the end of a batch in which it changed, a store has moved, or it began there: stores of
        # other tests may have told what entries take.
        on_disk = {ROCKSDB: partitions, AUTO: partitions}.get(backend, 0)
        assert last["keystateStoresOnDisk"] == on_disk


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"spark.keystate.backend": "floppy"}, "'rocksdb', or a class.*no such class"),
        (CustomStateBackend("java.lang.String").conf(), "not a StateBackendFactory"),
        (
            ROCKSDB.conf() | {"spark.keystate.rocksdb.memoryMB": "0"},
            "KEYSTATE_BAD_SETTING.*memoryMB is .0., and must be a whole",
        ),
        (ROCKSDB.conf() | {"spark.keystate.rocksdb.memory": "1"}, "is not a setting"),
        (AUTO.conf() | {"spark.keystate.auto.share": "1"}, "auto.share is not a setting"),
    ],
)
def test_a_bad_backend_fails_the_query_at_its_start(
    conf: dict[str, str],
    message: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    for key in ("rocksdb.memoryMB", "rocksdb.memory", "auto.share"):
        spark.conf.unset(f"spark.keystate.{key}")
    settings(**conf)
    fed = stream("key long, x long")
    fed.feed([(1, 2)])
    with pytest.raises(StreamingQueryException, match=message):
        fed.run(lambda df: keystate.keyed(df, "key").process(Everything(), OUTPUT))


def test_backends_are_plain_configuration() -> None:
    backend = EmbeddedRocksDBStateBackend(
        PredefinedOptions.FLASH_SSD_OPTIMIZED, memory_mb=512, write_buffer_ratio=0.25
    )
    assert backend.conf() == {
        "spark.keystate.backend": "rocksdb",
        "spark.keystate.rocksdb.predefinedOptions": "FLASH_SSD_OPTIMIZED",
        "spark.keystate.rocksdb.memoryMB": "512",
        "spark.keystate.rocksdb.writeBufferRatio": "0.25",
    }
    custom = CustomStateBackend("com.example.Mine", path="/a", size=3)
    assert custom.conf() == {
        "spark.keystate.backend": "com.example.Mine",
        "spark.keystate.backend.option.path": "/a",
        "spark.keystate.backend.option.size": "3",
    }
    auto = AutoStateBackend(0.25, backend)
    assert auto.conf() == backend.conf() | {
        "spark.keystate.backend": "auto",
        "spark.keystate.auto.heapShare": "0.25",
    }
    for one in (HEAP, backend, auto, custom):
        assert pickle.loads(pickle.dumps(one)) == one
        assert hash(pickle.loads(pickle.dumps(one))) == hash(one)
    assert custom != CustomStateBackend("com.example.Mine")
    with pytest.warns(DeprecationWarning, match="EmbeddedRocksDBStateBackend"):
        conf = keystate.RocksDBStateBackend("/checkpoints").conf()
    assert conf["spark.keystate.backend"] == "rocksdb"
    assert conf["spark.sql.streaming.checkpointLocation"] == "/checkpoints"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"predefined_options": "FLOPPY"}, "FLASH_SSD_OPTIMIZED"),
        ({"memory_mb": 0}, "memory_mb"),
        ({"write_buffer_ratio": 1.0}, "write_buffer_ratio"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        EmbeddedRocksDBStateBackend(**options)


@pytest.mark.parametrize("share", [0, 1, -0.5])
def test_a_bad_share_of_the_heap_is_refused(share: float) -> None:
    with pytest.raises(ConfigurationError, match="heap_share must be between 0 and 1"):
        AutoStateBackend(share)
