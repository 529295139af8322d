"""Draws `docs/benchmarks.png`: `python chart.py <results.json> <chart.png>`, under the Python that has matplotlib."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

SHOWN = {
    "bulk_insert": "bulk insert",
    "upsert_random": "upsert of a random 10 %",
    "scan": "full scan",
    "small_upsert": "upsert of 100 rows",
}
OWN, OTHERS = "#1565c0", "#b0bec5"


def draw(results: dict[str, Any], path: Path) -> None:
    """One small bar chart per operation, a bar per peer, pyhudi's in colour."""
    shown = {name: title for name, title in SHOWN.items() if _bars(results, name)}
    figure, grid = plt.subplots(1, len(shown), figsize=(3.0 * len(shown), 2.6), layout="constrained", squeeze=False)
    for axes, (operation, title) in zip(grid[0], shown.items(), strict=True):
        bars = _bars(results, operation)
        colours = [OWN if name.startswith("pyhudi") else OTHERS for name, _ in bars]
        drawn = axes.barh([name for name, _ in bars], [seconds for _, seconds in bars], color=colours)
        axes.bar_label(drawn, fmt="%.3g", fontsize=6, padding=2)
        axes.invert_yaxis()
        axes.margins(x=0.18)
        axes.set_title(title, fontsize=8)
        axes.tick_params(labelsize=6)
        axes.set_xlabel("seconds", fontsize=6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def _bars(results: dict[str, Any], operation: str) -> list[tuple[str, float]]:
    peers = results["peers"].values()
    return [(peer["title"], peer["median_seconds"][operation]) for peer in peers if operation in peer["median_seconds"]]


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
