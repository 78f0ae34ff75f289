"""A count a key in PyFlink, from Kafka: python -m bench.flink_latency ADDRESS TOPIC FOLDER JARS.

Runs under a Python that has apache-flink; `python -m bench.latency --pyflink PYTHON` calls it.
Writes the two times of each row into files in the folder, as `source,sink`, until it is terminated.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, MapFunction
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.state import ValueStateDescriptor

from bench.flink_average import environment, seconds_of

CHECKPOINTS_MS = 10_000


class Count(KeyedProcessFunction):
    """One value read and one update a row."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        yield row[0], n, row[1]


class Times(MapFunction):
    """Writes a row's two times, in µs, once it is out of the function before."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, ctx: Any) -> None:
        path = Path(self.folder) / str(uuid.uuid4())
        self.file = path.open("w", buffering=1)

    def map(self, row: Any) -> Any:
        self.file.write(f"{row[2]},{time.time_ns() // 1000}\n")
        return row[0]


def main() -> None:
    address, topic, folder, jars = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with tempfile.TemporaryDirectory(prefix="keystate-bench") as work:
        env = environment("thread", "rocksdb", work)
        env.add_jars(*(Path(jar).as_uri() for jar in jars.split(",")))
        env.enable_checkpointing(CHECKPOINTS_MS)
        # Else a row waits up to 100 ms on its way to the task of its key.
        env.set_buffer_timeout(1)
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers(address)
            .set_topics(topic)
            .set_starting_offsets(KafkaOffsetsInitializer.earliest())
            .set_value_only_deserializer(SimpleStringSchema())
            .build()
        )
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        out = (
            env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
            .map(lambda text: tuple(map(int, text.split(","))), pair)
            .key_by(lambda row: row[0], key_type=Types.LONG())
            .process(Count(), Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()]))
            .map(Times(folder), Types.LONG())
        )
        seconds_of(env, out)


if __name__ == "__main__":
    main()
