"""The summary printed at the end."""

from pyspark.sql import SparkSession

_FLEET = """
SELECT count(*) AS flights, count(DISTINCT tailnum) AS aircraft,
  count_if(status = 'cancelled') AS cancelled, sum(late) AS late, sum(carried) AS carried,
  avg(IF(quick AND prev_arr_delay >= 15, INT(dep_delay >= 15), NULL)) AS after_late,
  avg(IF(quick AND prev_arr_delay < 15, INT(dep_delay >= 15), NULL)) AS after_punctual
FROM legs
"""

_BUSIEST = """
WITH newest AS (
  SELECT tailnum, max(leg) AS legs, count(DISTINCT route) AS routes,
    max_by(mean_delay, leg) AS mean, max_by(delay_sd, leg) AS sd,
    max_by(worst_delay, leg) AS worst, max(chain) AS chain
  FROM legs WHERE leg IS NOT NULL GROUP BY tailnum
)
SELECT tailnum AS aircraft, coalesce(concat(initcap(manufacturer), ' ', model), 'unknown') AS type,
  year AS built, legs, routes, concat(mean, ' ± ', sd) AS `arrival delay`, worst,
  chain AS `longest chain`
FROM newest LEFT JOIN planes USING (tailnum) ORDER BY legs DESC, tailnum LIMIT 8
"""

_CARRIERS = """
SELECT name AS carrier, count(*) AS departures,
  INT(round(100 * avg(INT(coalesce(quick, false))))) AS `% quick`,
  round(avg(late), 1) AS `late min`, round(avg(coalesce(carried, 0)), 2) AS `carried min`,
  round(100 * sum(carried) / sum(late), 1) AS `% carried`
FROM legs JOIN airlines USING (carrier) WHERE leg IS NOT NULL
GROUP BY name ORDER BY `carried min` DESC, name LIMIT 8
"""

_MAKERS = """
SELECT CASE WHEN manufacturer LIKE 'AIRBUS%' THEN 'Airbus' WHEN manufacturer LIKE 'MCDONNELL%'
    THEN 'McDonnell Douglas' ELSE initcap(manufacturer) END AS maker,
  count(DISTINCT tailnum) AS aircraft, count(*) AS departures, INT(round(avg(seats))) AS seats,
  round(avg(late), 1) AS `late min`, round(avg(coalesce(carried, 0)), 2) AS `carried min`
FROM legs JOIN planes USING (tailnum) WHERE leg IS NOT NULL
GROUP BY maker ORDER BY departures DESC LIMIT 6
"""

_WEATHER = """
SELECT
  CASE WHEN visibility < 2 THEN 'under 2' WHEN visibility < 10 THEN '2 to 10' ELSE '10 or more' END
    AS miles,
  count(*) AS departures, round(avg(late), 1) AS `late min`,
  round(avg(coalesce(carried, 0)), 2) AS `carried min`,
  round(100 * sum(carried) / sum(late), 1) AS `% carried`
FROM legs WHERE leg IS NOT NULL AND visibility IS NOT NULL GROUP BY miles ORDER BY min(visibility)
"""

_TABLES = {
    "Busiest aircraft (minutes; a chain: departures in a row with a delay carried in)": _BUSIEST,
    "Carriers that carry most delay into their next departure, minutes per departure": _CARRIERS,
    "Makers": _MAKERS,
    "Visibility at the airport in the hour of departure": _WEATHER,
}


def headline(spark: SparkSession) -> str:
    """The year in two lines."""
    (fleet,) = spark.sql(_FLEET).collect()
    share = 100 * (fleet.carried or 0) / max(fleet.late or 0, 1)
    lines = [
        f"{fleet.flights:,} flights of {fleet.aircraft:,} aircraft, {fleet.cancelled:,} cancelled. "
        f"The late arrival of an aircraft's previous leg can account for {share:.0f}% of "
        f"{(fleet.late or 0) // 60:,} hours of departure delay."
    ]
    if fleet.after_late is not None and fleet.after_punctual is not None:
        lines.append(
            f"Back within ten hours, {fleet.after_late:.0%} left 15 minutes late or more when the "
            f"previous leg had arrived so, {fleet.after_punctual:.0%} when not."
        )
    return "\n".join(lines)


def print_tables(spark: SparkSession) -> None:
    """Prints the tables."""
    for title, query in _TABLES.items():
        print(f"\n{title}")
        spark.sql(query).show(truncate=False)
