"""The panels of the picture, each drawn from one query over the ``legs`` view."""

from typing import Any

import numpy as np
from matplotlib import dates as mdates
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from pyspark.sql import SparkSession

from .legs import ROTATION

HEAT = LinearSegmentedColormap.from_list(
    "heat", ["#f3efe4", "#f7d9a3", "#f2a65a", "#d95d39", "#9c2a3c", "#4a1230"]
)
ACCENT, QUIET, INK = "#d1495b", "#cfccc3", "#22262b"


def year(spark: SparkSession, axes: Axes) -> None:
    """Hours of departure delay by day, and the part carried in."""
    days = spark.sql(
        "SELECT CAST(local AS DATE) AS day, sum(late) / 60 AS late, sum(carried) / 60 AS carried"
        " FROM legs WHERE leg IS NOT NULL GROUP BY day ORDER BY day"
    ).collect()
    when = np.array([np.datetime64(row.day) for row in days])
    late = np.array([row.late for row in days], float)
    carried = np.array([row.carried or 0 for row in days], float)
    axes.bar(when, late, width=1, color=QUIET, label="hours of departure delay")
    axes.bar(when, carried, width=1, color=ACCENT, label="of these carried in by the aircraft")
    for place in _peaks(late, 5):
        axes.annotate(
            f"{days[place].day:%-d %b}", (when[place], late[place]), (0, 3), ha="center",
            textcoords="offset points", fontsize=8.5,
        )  # fmt: skip
    axes.set_title("Hours of delay, day by day")
    axes.legend(frameon=False, loc="upper right", ncols=2, bbox_to_anchor=(1, 1.2))
    axes.margins(x=0.005, y=0.14)
    _months(axes)


def carriers(spark: SparkSession, axes: Axes) -> None:
    """Heat map: mean minutes carried into a departure, by carrier and scheduled hour."""
    names = [
        row.name
        for row in spark.sql(
            "SELECT name FROM (SELECT name, count(*) AS n, avg(coalesce(carried, 0)) AS carried"
            " FROM legs JOIN airlines USING (carrier) WHERE leg IS NOT NULL GROUP BY name"
            " ORDER BY n DESC LIMIT 12) ORDER BY carried DESC, name"
        ).collect()
    ]
    cells = spark.sql(
        "SELECT name, planned, avg(coalesce(carried, 0)) AS carried FROM legs"
        " JOIN airlines USING (carrier) WHERE leg IS NOT NULL AND planned BETWEEN 5 AND 23"
        " GROUP BY name, planned HAVING count(*) >= 10"
    ).collect()
    heat = np.full((len(names), 19), np.nan)
    for row in cells:
        if row.name in names:
            heat[names.index(row.name), row.planned - 5] = row.carried
    mesh = axes.pcolormesh(heat, cmap=HEAT, edgecolors=axes.get_facecolor(), linewidth=1.5, vmin=0)
    axes.set_yticks(np.arange(len(names)) + 0.5, [_plain(name) for name in names])
    axes.set_xticks(np.arange(0, 19, 2) + 0.5, [f"{hour}:00" for hour in range(5, 24, 2)])
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("scheduled hour of departure")
    axes.set_title("Delay gathers during the day: minutes carried into a departure")
    _bar(axes, mesh, "minutes, mean")


def legs(spark: SparkSession, axes: Axes) -> None:
    """Density of the previous arrival's delay against this departure's, with its median."""
    cells = spark.sql(
        "SELECT INT(floor(prev_arr_delay / 5)) AS x, INT(floor(dep_delay / 5)) AS y, count(*) AS n"
        " FROM legs WHERE quick AND prev_arr_delay BETWEEN -45 AND 184"
        " AND dep_delay BETWEEN -15 AND 184 GROUP BY x, y"
    ).collect()
    density = np.full((40, 46), np.nan)
    for row in cells:
        density[row.y + 3, row.x + 9] = row.n
    edges = np.arange(-9, 38) * 5, np.arange(-3, 38) * 5
    mesh = axes.pcolormesh(*edges, density, cmap=HEAT, norm=LogNorm(vmin=1), rasterized=True)
    medians = spark.sql(
        "SELECT INT(floor(prev_arr_delay / 10)) AS x, median(dep_delay) AS y FROM legs WHERE quick"
        " AND prev_arr_delay BETWEEN -45 AND 179 GROUP BY x HAVING count(*) >= 20 ORDER BY x"
    ).collect()
    axes.plot([0, 180], [0, 180], color="#5d6066", lw=0.9, ls=(0, (4, 4)))
    axes.plot(
        [10 * row.x + 5 for row in medians], [row.y for row in medians], color="#1d4e89", lw=2.4
    )
    axes.text(
        172, 176, "as late as it came", ha="right", va="bottom", fontsize=8.5, color="#5d6066"
    )
    if medians:
        last = medians[-1]
        axes.text(
            10 * last.x + 2, last.y - 12, "median", ha="right", color="#1d4e89", weight="bold"
        )
    axes.set(xlim=(-45, 185), ylim=(-15, 185))
    axes.set_xlabel("previous leg arrived late by, minutes")
    axes.set_ylabel("this leg left late by, minutes")
    axes.set_title(f"Back within {ROTATION // 60} hours: late arrival, late departure")
    _bar(axes, mesh, "flights")


def aircraft(spark: SparkSession, axes: Axes) -> None:
    """Every departure of the aircraft that carried most delay: date, hour, delay."""
    flown = spark.sql(
        "SELECT tailnum, local, late, carried FROM legs WHERE leg IS NOT NULL AND tailnum = (SELECT"
        " max_by(tailnum, struct(total, tailnum)) FROM"
        " (SELECT tailnum, coalesce(sum(carried), 0) AS total FROM legs GROUP BY tailnum))"
        " ORDER BY minute"
    ).collect()
    when = np.array([np.datetime64(row.local.date()) for row in flown])
    hour = np.array([row.local.hour + row.local.minute / 60 for row in flown])
    late = np.array([row.late for row in flown])
    carried = np.array([bool(row.carried) for row in flown])
    axes.scatter(when[late < 15], hour[late < 15], c=QUIET, s=14, label="less than 15 minutes late")
    for chosen, edge, label in (
        ((late >= 15) & ~carried, "none", "late"),
        ((late >= 15) & carried, INK, "late, with a delay carried in"),
    ):
        dots = axes.scatter(
            when[chosen], hour[chosen], c=late[chosen], s=22 + 0.5 * np.minimum(late[chosen], 150),
            cmap=HEAT, vmin=-20, vmax=150, edgecolors=edge, linewidths=1.1, label=label,
        )  # fmt: skip
    minutes = sum(row.carried or 0 for row in flown)
    axes.set_title(
        f"One aircraft, {flown[0].tailnum}: {len(flown)} departures, {minutes:,} minutes carried in"
    )
    axes.set(ylim=(24.5, 4.5), ylabel="hour of departure")
    axes.set_yticks(range(6, 25, 3), [f"{hour}:00" for hour in range(6, 25, 3)])
    axes.margins(x=0.01)
    axes.legend(frameon=False, loc="upper right", ncols=3, bbox_to_anchor=(1, 1.2))
    _months(axes)
    _bar(axes, dots, "minutes late", pad=0.01, fraction=0.02)
    axes.collections[-1].colorbar.ax.set_ylim(15, 150)


def _peaks(values: np.ndarray, count: int) -> list[int]:
    """The places of the ``count`` greatest values that are at least a week apart."""
    places: list[int] = []
    for place in np.argsort(-values):
        if len(places) < count and all(abs(place - other) > 7 for other in places):
            places.append(int(place))
    return places


def _months(axes: Axes) -> None:
    axes.xaxis.set_major_locator(mdates.AutoDateLocator(minticks=4, maxticks=13))
    axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(axes.xaxis.get_major_locator()))


def _bar(axes: Axes, mesh: Any, label: str, pad: float = 0.015, fraction: float = 0.04) -> None:
    bar = axes.figure.colorbar(mesh, ax=axes, pad=pad, fraction=fraction)
    bar.outline.set_visible(False)
    bar.set_label(label)


def _plain(name: str) -> str:
    """A carrier's name without its legal form."""
    for ending in (" Inc.", " Co.", " Corporation", " Airlines", " Air Lines"):
        name = name.removesuffix(ending)
    return name
