"""The written result as views: ``legs``, ``airlines`` and ``planes``."""

from pyspark.sql import SparkSession

from .legs import ROTATION
from .source import data_file
from .workspace import Workspace


def _new_york(minute: str) -> str:
    """SQL: what the clocks of New York showed at ``minute``, whatever the session's time zone."""
    since = f"TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval(0, 0, INT({minute}))"
    return f"convert_timezone('UTC', 'America/New_York', {since})"


_LEGS = f"""
SELECT *,
  concat(origin, '-', dest) AS route,
  greatest(dep_delay, 0) AS late,
  gap <= {ROTATION} AND prev_arr_delay IS NOT NULL AS quick,
  {_new_york("minute")} AS local,
  hour({_new_york("scheduled")}) AS planned
FROM {{result}}
"""
"""``late``: minutes of departure delay, early counted as 0; ``quick``: back soon enough to carry a
delay; ``local``: when it left, ``planned``: the hour it should have, by New York's clocks."""


def open_views(spark: SparkSession, workspace: Workspace) -> None:
    """Registers the views; ``legs`` is kept in memory."""
    result = spark.read.parquet(str(workspace.result))
    spark.sql(_LEGS, result=result).cache().createOrReplaceTempView("legs")
    for name in ("airlines", "planes"):
        table = spark.read.csv(str(data_file(f"{name}.csv")), header=True, nullValue="NA")
        table.createOrReplaceTempView(name)


def close_views(spark: SparkSession) -> None:
    """Undoes ``open_views``."""
    spark.table("legs").unpersist()
    for name in ("legs", "airlines", "planes"):
        spark.catalog.dropTempView(name)
