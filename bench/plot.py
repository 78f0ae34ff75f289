"""A picture of the throughputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def throughput(results: list[dict[str, Any]], path: Path) -> None:
    """Draws bars of rows/s, one panel a workload."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    measured = [r for r in results if "rows_per_s" in r]
    names = list(dict.fromkeys(r["workload"] for r in measured))
    if not names:
        return
    figure, panels = plt.subplots(len(names), figsize=(9, 2.6 * len(names)), squeeze=False)
    for panel, name in zip(panels[:, 0], names):
        bars = [r for r in measured if r["workload"] == name][::-1]
        colors = ["tab:blue" if r["name"].startswith("keystate") else "tab:gray" for r in bars]
        drawn = panel.barh([r["name"] for r in bars], [r["rows_per_s"] for r in bars], color=colors)
        panel.bar_label(drawn, [f"{r['rows_per_s']:,}" for r in bars], padding=3, fontsize=8)
        panel.set_xscale("log")
        panel.set_title(f"{name}: {bars[0]['title']}, rows/s", fontsize=10, loc="left")
        panel.margins(x=0.15)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
