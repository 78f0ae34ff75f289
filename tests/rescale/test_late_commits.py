"""The driver that had the checkpoint before commits a micro-batch after it was rescaled."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryListener


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def by_function(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Count(), "key long, count long")


def by_sql(df: Any) -> Any:
    return df.groupBy("key").count()


class AtStart(StreamingQueryListener):
    """Does something when a query starts, after Keystate has taken its checkpoint."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self._do = do

    def onQueryStarted(self, event: Any) -> None:
        self._do()

    def onQueryProgress(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None: ...


@pytest.mark.parametrize(("build", "partitions"), [(by_function, 5), (by_sql, 2)])
def test_a_commit_that_comes_after_a_rescale(
    build: Any, partitions: int, spark: Any, stream: Any, settings: Any, tmp_path: Any
) -> None:
    """The start that rescaled ends with an error that says so; the next one goes on."""
    settings(**{FORMAT_KEY: "2", "spark.sql.shuffle.partitions": "3"})
    fed = stream("key long")
    batch = [(key,) for key in range(20)]
    fed.feed(batch, batch)
    fed.run(build, mode="update")
    commit = fed.checkpoint / "commits" / "1"
    late = commit.rename(tmp_path / "1")
    commit.with_name(".1.crc").unlink(missing_ok=True)
    fed.feed(batch)
    settings(**{"spark.sql.shuffle.partitions": str(partitions)})
    listener = AtStart(lambda: late.rename(commit))
    spark.streams.addListener(listener)
    try:
        with pytest.raises(StreamingQueryException) as error:
            fed.run(build, mode="update")
    finally:
        spark.streams.removeListener(listener)
    assert re.search(
        rf"KEYSTATE_MIXED_PARTITIONS. Batch 1 of the checkpoint \S*{fed.checkpoint} was committed "
        rf"with 3 partitions, and this query begins the next one with {partitions}: .*start this",
        str(error.value),
    )
    emitted = sorted(map(tuple, fed.run(build, mode="update")))
    assert emitted == [(key, 3) for key in range(20)]
    assert admin.verify(str(fed.checkpoint)) == []
    assert admin.inspect(str(fed.checkpoint))["partitions"] == partitions
