"""W1 in PyFlink: python bench/flink_average.py MODE BACKEND ROWS KEYS REPS.

Runs under a Python that has apache-flink, whose dependencies exclude Keystate's; `python -m bench
W1 --pyflink PYTHON` calls it. Rows come from and go to Flink's JVM. Prints the seconds of each job,
as a JSON list, after one that warms up.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors import Sink
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

CORES = 2


class CountWindowAverage(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        kind = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.sum = ctx.get_state(ValueStateDescriptor("average", kind))

    def process_element(self, row: Any, ctx: Any) -> Any:
        count, total = self.sum.value() or (0, 0)
        count += 1
        total += row[1]
        if count >= 2:
            self.sum.clear()
            yield row[0], total / count
        else:
            self.sum.update((count, total))


def environment(mode: str, backend: str, work: str) -> StreamExecutionEnvironment:
    """A local job in the making.

    Args:
        mode: `thread` or `process`: where its functions in Python run.
        backend: of its state, such as `rocksdb`.
        work: a folder for its files.
    """
    # An interpreter inside Flink's JVM doesn't look into a virtual environment by itself.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    settings = {
        "python.execution-mode": mode,
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "state.backend.type": backend,
        "taskmanager.memory.managed.size": "1g",
        "io.tmp.dirs": work,
        "rest.port": "0",
    }
    conf = Configuration()
    for key, value in settings.items():
        conf.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    env.set_parallelism(CORES)
    return env


def seconds_of(env: StreamExecutionEnvironment, out: Any) -> float:
    """Runs the job, and discards its results."""
    package = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2
    out.sink_to(Sink(package.DiscardingSink()))
    return float(env.execute().get_net_runtime() / 1000)


def run(mode: str, backend: str, rows: int, keys: int, work: str) -> float:
    """Seconds that a job takes."""
    env = environment(mode, backend, work)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TEMPORARY TABLE input (`key` BIGINT, `value` BIGINT) WITH ("
        f"'connector' = 'datagen', 'number-of-rows' = '{rows}', 'rows-per-second' = '1000000000', "
        f"'fields.key.min' = '0', 'fields.key.max' = '{keys - 1}', "
        "'fields.value.min' = '0', 'fields.value.max' = '999')"
    )
    out = (
        tables.to_data_stream(tables.from_path("input"))
        .key_by(lambda row: row[0], key_type=Types.LONG())
        .process(CountWindowAverage(), Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
    )
    return seconds_of(env, out)


def main() -> None:
    mode, backend, rows, keys, reps = *sys.argv[1:3], *map(int, sys.argv[3:])
    # Else the workers of a local job are threads of this process, under one lock.
    os.environ["_python_worker_execution_mode"] = "process"  # noqa: SIM112
    with tempfile.TemporaryDirectory(prefix="keystate-bench") as work:
        seconds = [run(mode, backend, rows, keys, work) for _ in range(1 + reps)]
    print("seconds", json.dumps(seconds[1:]))


if __name__ == "__main__":
    main()
