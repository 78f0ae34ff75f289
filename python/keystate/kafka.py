"""Results for Kafka."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter


class ExactlyOnceSink:
    """Writes each result into Kafka once, for consumers with ``isolation.level=read_committed``.

    It is the format ``keystate-kafka``. The rows have the columns of Spark's Kafka sink: ``value``,
    and maybe ``key``, ``headers``, ``topic`` and ``partition``. The session needs Spark's package
    for Kafka, ``spark-sql-kafka-0-10``.

    Args:
        servers: the brokers, as ``host:port,...``.
        topic: the topic; ``None`` if the rows have a column ``topic``.
        options: other options: those of Spark's sink, as ``**{"kafka.compression.type": "zstd"}``,
            and ``sinkId``.
    """

    def __init__(self, servers: str, topic: str | None = None, **options: Any) -> None:
        self._options = {**options, "kafka.bootstrap.servers": servers}
        if topic is not None:
            self._options["topic"] = topic

    def writer(self, df: DataFrame) -> DataStreamWriter:
        """A writer to start: it needs a checkpoint location, and may have a trigger."""
        return df.writeStream.format("keystate-kafka").options(**self._options)
