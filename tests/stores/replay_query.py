"""A driver whose query reads a topic of Kafka or a table of Delta Lake, and is replayed.

python replay_query.py kafka|delta PLACE FOLDER

PLACE is the broker's address, or the table's folder. The query runs twice, with other partitions,
over rounds of rows that are written before. Then batches of it are replayed, also after what the
first ones read is gone. FOLDER/found.json has what was found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import keystate
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.fault import sessions
from tests.fault.sessions import error
from tests.query.replayed import Totals
from tests.stores import lakes
from tests.stores.artifacts import KAFKA_SOURCE, jars_for_spark

ROUNDS, ROWS, KEYS = 6, 60, 7
RECORDS = "org.apache.kafka.clients.admin.RecordsToDelete"


class Topic:
    """A topic with two partitions, of which a micro-batch reads a part of a round."""

    jars = ("kafka-spark",)
    properties: ClassVar = KAFKA_SOURCE

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self._servers = place

    def write(self, rows: DataFrame) -> None:
        keyed = rows.select("key", F.col("value").cast("string"))
        to = keyed.write.format("kafka").option("kafka.bootstrap.servers", self._servers)
        to.option("topic", "in").save()

    def rows(self, **options: str) -> DataFrame:
        reader = self._spark.readStream.format("kafka")
        reader = reader.option("kafka.bootstrap.servers", self._servers).option("subscribe", "in")
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 40)
        texts = reader.options(**options).load()
        return texts.select(F.col("key").cast("string"), F.col("value").cast("string").cast("long"))

    def lose(self) -> None:
        """Deletes what the first rounds wrote, as retention does."""
        gateway: Any = self._spark.sparkContext._gateway
        jvm = gateway.jvm
        admin = jvm.org.apache.kafka.clients.admin.AdminClient
        client = admin.create({"bootstrap.servers": self._servers})
        # Py4J does not find a static method beside one with its name that is not.
        kind = client.getClass().getClassLoader().loadClass(RECORDS)
        (make,) = (
            m
            for m in kind.getMethods()
            if m.getParameterCount() == 1 and m.getName() == "beforeOffset"
        )
        until = gateway.new_array(jvm.Object, 1)
        until[0] = ROUNDS * ROWS // 5
        gone = {
            jvm.org.apache.kafka.common.TopicPartition("in", partition): make.invoke(None, until)
            for partition in range(2)
        }
        client.deleteRecords(gone).all().get()
        client.close()


class Table:
    """A table of Delta Lake, of which a micro-batch reads a file."""

    jars = ("delta",)
    properties: ClassVar = {"spark": lakes.LINE, "delta": str(lakes.release("delta"))}

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self._folder = place

    def write(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.format("delta").mode("append").save(self._folder)

    def rows(self, **options: str) -> DataFrame:
        reader = self._spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
        return reader.options(**options).load(self._folder)

    def lose(self) -> None:
        """Deletes what was in the table until its rows were replaced, as VACUUM does."""
        self._spark.sql(f"DELETE FROM delta.`{self._folder}`")
        self._spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self._spark.sql(f"VACUUM delta.`{self._folder}` RETAIN 0 HOURS")


def operator(rows: DataFrame) -> DataFrame:
    return keystate.keyed(rows, "key", order_by="value").process(Totals(), "key string, total long")


def run(query: DataFrame, checkpoint: str) -> dict[int, list[Row]]:
    emitted: dict[int, list[Row]] = {}

    def take(df: DataFrame, batch: int) -> None:
        emitted[batch] = df.collect()

    writer = query.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    return emitted


def main() -> None:
    kind, place, folder = sys.argv[1:]
    of = {"kafka": Topic, "delta": Table}[kind]
    builder = sessions.builder("local[2]", 2)
    builder = builder.config("spark.jars", jars_for_spark(*of.jars, **of.properties))
    if kind == "delta":
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        builder = builder.config("spark.sql.catalog.spark_catalog", catalog)
        builder = builder.config("spark.databricks.delta.snapshotPartitions", "2")
    spark = keystate.configure(builder).getOrCreate()
    source = of(spark, place)
    checkpoint = f"{folder}/checkpoint"
    emitted: dict[int, list[Row]] = {}
    for half, partitions in enumerate(("2", "3")):
        for number in range(half * ROUNDS // 2, (half + 1) * ROUNDS // 2):
            ids = spark.range(number * ROWS, (number + 1) * ROWS, numPartitions=1)
            source.write(ids.selectExpr(f"concat('k', id % {KEYS}) AS key", "id AS value"))
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        emitted |= run(operator(source.rows()), checkpoint)

    def again(batch: int, key: str, **options: str) -> dict[str, Any]:
        made = keystate.replay(operator(source.rows(**options)), checkpoint, batch=batch, key=key)
        main = [tuple(row) for step in made for row in step.emitted]
        expected = [tuple(row) for row in emitted[batch] if row.key == key]
        return {"same": made.same, "rows": len(main), "as emitted": main == expected}

    found: dict[str, Any] = {"batches": len(emitted)}
    found["replays"] = [again(batch, f"k{batch % KEYS}") for batch in emitted]
    everyone = keystate.replay(operator(source.rows()), checkpoint, batch=1)
    found["everyone"] = [everyone.same, sorted(everyone)]
    source.lose()
    found["lost"] = error(lambda: again(0, "k0"))
    found["lost and allowed"] = error(lambda: again(0, "k0", failOnDataLoss="false"))
    if kind == "kafka":
        found["kept"] = again(max(emitted), "k0")
    Path(folder, "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
