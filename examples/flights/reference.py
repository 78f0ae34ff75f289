"""The same rows from one batch with window functions, without Keystate, to compare with."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from .legs import LEGS, ROTATION

_FLOWN = f"""
WITH numbered AS (
  SELECT *,
    count(*)       OVER so_far   AS leg,
    count(*)       OVER on_route AS route_nth,
    lag(minute)    OVER by_time  AS prev_minute,
    lag(air_time)  OVER by_time  AS prev_air_time,
    lag(arr_delay) OVER by_time  AS prev_arr_delay,
    count(arr_delay)             OVER so_far AS arrivals,
    sum(arr_delay)               OVER so_far AS total,
    sum(arr_delay * arr_delay)   OVER so_far AS squares,
    min(arr_delay)               OVER so_far AS best_delay,
    max(arr_delay)               OVER so_far AS worst_delay
  FROM {{flights}} WHERE dep_delay IS NOT NULL
  WINDOW
    by_time  AS (PARTITION BY tailnum ORDER BY minute, scheduled, carrier, flight, origin),
    so_far   AS (PARTITION BY tailnum ORDER BY minute, scheduled, carrier, flight, origin
                 ROWS UNBOUNDED PRECEDING),
    on_route AS (PARTITION BY tailnum, origin, dest
                 ORDER BY minute, scheduled, carrier, flight, origin ROWS UNBOUNDED PRECEDING)
), carrying AS (
  SELECT *,
    IF(arr_delay IS NULL, 'no arrival', 'arrived') AS status,
    minute - prev_minute AS gap,
    scheduled - prev_minute - 2 * prev_air_time AS slack,
    CASE WHEN prev_arr_delay IS NULL THEN NULL
         WHEN minute - prev_minute > {ROTATION} THEN 0
         ELSE greatest(0, least(prev_arr_delay, dep_delay)) END AS carried,
    nullif(arrivals, 0) AS n
  FROM numbered
)
SELECT *,
  leg - max(IF(coalesce(carried, 0) = 0, leg, NULL))
        OVER (PARTITION BY tailnum ORDER BY leg ROWS UNBOUNDED PRECEDING) AS chain,
  (total - pmod(total, n)) DIV n AS mean_delay,
  CAST(floor(sqrt((n * squares - total * total) DIV (n * n))) AS BIGINT) AS delay_sd
FROM carrying
"""

_CANCELLED = "SELECT *, 'cancelled' AS status FROM {flights} WHERE dep_delay IS NULL"


def reference(flights: DataFrame) -> DataFrame:
    """``LEGS`` of all ``flights`` (a batch DataFrame)."""
    spark = flights.sparkSession
    flown = spark.sql(_FLOWN, flights=flights)
    cancelled = spark.sql(_CANCELLED, flights=flights)
    names = [column.split()[0] for column in LEGS.split(",")]
    return flown.select(names).unionByName(
        cancelled.select(names[: names.index("status") + 1]), allowMissingColumns=True
    )


def differences(result: DataFrame, flights: DataFrame) -> int:
    """How many rows are in only one of ``result`` and the reference: 0 when all is well."""
    names = result.columns
    both = result.withColumn("copies", sf.lit(1)).unionByName(
        reference(flights).withColumn("copies", sf.lit(-1))
    )
    surplus = both.groupBy(names).agg(sf.abs(sf.sum("copies")).alias("surplus"))
    (total,) = surplus.agg(sf.sum("surplus")).collect()[0]
    return int(total or 0)
