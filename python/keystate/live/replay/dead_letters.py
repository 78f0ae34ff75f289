"""Feeds corrected rows of dead letters into a query again."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keystate._spec.specs import DELAY_KEY
from keystate._types.sql_json import EXACT_JSON
from keystate.errors import DeclarationError
from keystate.functions.dead_letters import column_types


def with_replays(df: DataFrame, folder: str) -> DataFrame:
    """A stream's rows, and those that :func:`replay_dead_letters` puts into a folder.

    The folder is a source of the query with an offset of its own, so each row comes once, over
    restarts too. A query can't get another source later: use this from its first start on.

    Args:
        df: the stream, before ``withWatermark``.
        folder: where the rows will be, a path or URL; it is made if there is none. One for each
            operator and checkpoint.

    Raises:
        DeclarationError: `df` is no stream, or has a watermark already.
    """
    if not df.isStreaming:
        raise DeclarationError("with_replays() needs a stream")
    for field in df.schema.fields:
        if DELAY_KEY in field.metadata:
            raise DeclarationError(
                "with_replays() comes before withWatermark(): both inputs have one watermark then"
            )
    spark, schema = df.sparkSession, _schema(df.schema)
    # Mode ignore: an existing folder is not changed.
    spark.createDataFrame([], schema).write.mode("ignore").parquet(folder)
    replayed = spark.readStream.schema(schema).parquet(folder)
    return df.unionByName(replayed.select(*(F.col(f"row.`{name}`") for name in df.columns)))


def replay_dead_letters(letters: DataFrame, folder: str) -> int:
    """Puts the rows of dead letters into a folder, from which :func:`with_replays` takes them.

    A letter whose row is there already is left out. So this can be called again with the same
    letters, after a failure or with more of them, but not twice at the same time. A letter is
    identified by its ``id``, if the id depends on its row; otherwise by ``id`` and row.

    Args:
        letters: a batch DataFrame with the ``id`` of each letter and, as a struct of the input's
            columns, its corrected ``row``.
        folder: the folder that the query reads.

    Returns:
        The number of rows put there.

    Raises:
        DeclarationError: `letters` lacks these columns, or its rows have other columns than the
            query's.
    """
    spark = letters.sparkSession
    there = spark.read.parquet(folder)
    wanted = there.schema["row"].dataType
    if "id" not in letters.columns or "row" not in letters.columns:
        raise DeclarationError(
            "replay_dead_letters() needs the columns id and row of dead letters, got "
            f"{letters.columns}"
        )
    kind = letters.schema["row"].dataType
    if column_types(kind) != column_types(wanted):
        raise DeclarationError(
            f"the rows are {kind.simpleString()}, but the query's are {wanted.simpleString()}: of "
            "JSON make them with F.from_json('row', df.schema)"
        )
    chosen = letters.where("row is not null").select("id", "row", _content().alias("content"))
    past = there.select(F.col("id").alias("past_id"), _content().alias("past_content"))
    is_there = F.expr("id <=> past_id AND content = past_content")
    found = chosen.dropDuplicates(["id", "content"]).join(past, is_there, "left_anti")
    new = found.select("id", "row").persist()
    try:
        count = new.count()
        if count:
            new.write.mode("append").parquet(folder)
        return count
    finally:
        new.unpersist()


#: The form of an id that depends on its row: batch, hash of the row, number among equal rows.
_OF_ROW = "^(batch(-[0-9]+)?|[0-9]+)-[0-9a-f]{16}-[0-9]+$"


def _content() -> Column:
    """The column that distinguishes letters with the same id.

    Of two runs of a micro-batch an id that only counts letters can be of different rows. None of
    them may be left out, though a row may then come twice. As JSON, since maps can't be compared.
    """
    return F.when(F.col("id").rlike(_OF_ROW), "").otherwise(F.to_json("row", EXACT_JSON))


def _schema(row_type: T.StructType) -> T.StructType:
    fields = [T.StructField(f.name, f.dataType) for f in row_type.fields]
    return T.StructType(
        [T.StructField("id", T.StringType()), T.StructField("row", T.StructType(fields))]
    )
