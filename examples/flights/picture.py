"""The picture: four views of how late aircraft stay late."""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from pyspark.sql import SparkSession

from . import panels

INK, PAPER = panels.INK, "#fbfaf7"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": "#b9b6ae",
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "xtick.color": "#5d6066",
    "ytick.color": "#5d6066",
}


def save_picture(spark: SparkSession, path: Path, words: str) -> None:
    """Draws the views of ``results.py`` into a PNG file, with ``words`` under its title."""
    with rc_context(STYLE):
        figure = Figure(figsize=(16, 12.4))
        grid = figure.add_gridspec(
            3, 2, height_ratios=(1, 2.35, 1.25), width_ratios=(1.25, 1),
            left=0.125, right=0.965, top=0.86, bottom=0.05, hspace=0.38, wspace=0.2,
        )  # fmt: skip
        panels.year(spark, figure.add_subplot(grid[0, :]))
        panels.carriers(spark, figure.add_subplot(grid[1, 0]))
        panels.legs(spark, figure.add_subplot(grid[1, 1]))
        panels.aircraft(spark, figure.add_subplot(grid[2, :]))
        figure.text(0.125, 0.957, "Late in, late out", fontsize=25, weight="bold")
        figure.text(0.125, 0.943, words, fontsize=11.5, linespacing=1.5, va="top")
        figure.savefig(path, dpi=110)
