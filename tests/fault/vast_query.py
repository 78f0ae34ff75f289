"""A query that changes 3 GB of state in each of two batches: python vast_query.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ListStateDescriptor, ValueStateDescriptor

from tests.fault import sessions

KEYS, SIZE = 48, 32 << 20


class Vast(KeyedProcessFunction):
    """Holds 32 MB in a value and as much in a list, which begin with the key and the batch."""

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "binary"))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "binary"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        mark = bytes([row.key, row.n])
        if row.n > 0:
            before = bytes([row.key, row.n - 1])
            assert self.value.value() == before + bytes(SIZE)
            assert self.list.get() == [before + bytes(SIZE // 32)] * 32
        self.value.update(mark + bytes(SIZE))
        self.list.update([mark + bytes(SIZE // 32)] * 32)
        yield row.key, row.n


def main(folder: Path) -> None:
    builder = sessions.builder("local[2]", partitions=1).config("spark.driver.memory", "8g")
    spark = keystate.configure(builder.config("spark.keystate.backend", "rocksdb")).getOrCreate()
    schema = "key long, n long"
    for n in range(2):
        rows = [(key, n) for key in range(KEYS)]
        spark.createDataFrame(rows, schema).write.mode("append").parquet(str(folder / "input"))
        df = spark.readStream.schema(schema).parquet(str(folder / "input"))
        query = (
            keystate.keyed(df, "key")
            .process(Vast(), schema)
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.recentProgress[-1].sink.numOutputRows == KEYS
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
