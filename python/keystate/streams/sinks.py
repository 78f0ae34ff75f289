"""Where the outputs of a query go, each micro-batch exactly once.

A sink is called with the DataFrame of a micro-batch and its id, as ``foreachBatch`` does. A query
that failed runs its last micro-batch again: then the sink skips it, or overwrites it. This relies
on the id, so a sink belongs to one query: a query with a new checkpoint begins again with
micro-batch 0, and needs a new path or table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from keystate._jvm import bridge
from keystate._types.ddl import quoted
from keystate.errors import DeclarationError


class FileSink:
    """Writes files as Spark's own file sink does, which ``writeStream`` has.

    The folder ``_spark_metadata`` of the path lists the committed micro-batches. Spark reads only
    files that are listed there; other readers may also see files of a micro-batch that failed.

    Args:
        path: the folder.
        format: ``"parquet"``, ``"json"``, ``"csv"``, ``"orc"``, ``"text"``.
        partition_by: the names of columns that the files are partitioned by.
        options: the format's options, as for ``df.write.options``.
    """

    def __init__(
        self,
        path: str,
        format: str = "parquet",
        *,
        partition_by: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self._path = str(path)
        self._format = format
        self._partition_by = [partition_by] if isinstance(partition_by, str) else partition_by
        self._options = {name: _text(value) for name, value in options.items()}

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Writes a micro-batch.

        Raises:
            DeclarationError: the format is not a file format.
        """
        bridge.add_files(df, batch_id, self._path, self._format, self._partition_by, self._options)


class TableSink:
    """Writes into a table with a partition for each micro-batch, which it overwrites.

    The table is created if there is none. It has the columns of the output, and one more for the
    micro-batch's id, by which it is partitioned.

    Args:
        table: the table's name, with catalog and schema if needed.
        batch_column: the name of the column for the id.
        format: the format of a new table.
    """

    def __init__(
        self, table: str, batch_column: str = "batch_id", *, format: str = "parquet"
    ) -> None:
        self._table = table
        self._batch_column = batch_column
        self._format = format

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Writes a micro-batch.

        Raises:
            DeclarationError: the output has a column of that name, or the table lacks a column or
                has others.
        """
        session, column = df.sparkSession, self._batch_column
        if column.lower() in map(str.lower, df.columns):
            raise DeclarationError(
                f"the output for table {self._table} has a column '{column}' of its own: give the "
                "sink another batch_column"
            )
        # No rows are written here, so a table is complete or not there.
        id_column = quoted(column)
        session.sql(
            f"CREATE TABLE IF NOT EXISTS {self._table} ({df.schema.toDDL()}, {id_column} BIGINT) "
            f"USING {self._format} PARTITIONED BY ({id_column})"
        )
        columns = [name for name in session.table(self._table).columns if name != column]
        if sorted(columns) != sorted(df.columns):
            raise DeclarationError(
                f"table {self._table} has the columns {columns}, and the output {df.columns}"
            )
        session.sql(
            f"INSERT OVERWRITE TABLE {self._table} PARTITION ({id_column} = {int(batch_id)}) "
            "SELECT * FROM {rows}",
            rows=df.select(*map(quoted, columns)),
        )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
