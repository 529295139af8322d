"""Draws `docs/growth.png` under the Python that has matplotlib: `python growth_chart.py <growth.json> <growth.png>`."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt


def draw(cells: list[dict[str, Any]], path: Path) -> None:
    """A line for each engine and number of splits: what a touched file group takes, by the number of groups."""
    lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for cell in cells:
        name = "no Spark" if cell["engine"] == "local" else f"Spark, {cell['splits']} splits"
        lines[name].append((cell["groups"], cell["cpu_ms_per_group"]))
    figure, axes = plt.subplots(figsize=(5.5, 2.8), layout="constrained")
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:g}")
    axes.tick_params(which="both", labelsize=6)
    axes.set_xlabel("file groups that an upsert touches", fontsize=7)
    axes.set_ylabel("processor ms of a file group", fontsize=7)
    axes.legend(fontsize=6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
