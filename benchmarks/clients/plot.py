"""Draw one picture for each work in which contenders were timed: ``plot.py RESULT.json FOLDER``."""

import json
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot

OURS, THEIRS = "#d9480f", "#adb5bd"
mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9, "axes.spines.top": False})
mpl.rcParams.update({"axes.spines.right": False, "axes.spines.left": False})


def draw(report: dict, target: Path) -> None:
    """Draw seconds as bars, the shortest on top, with their spread and processor time."""
    ran = [o for o in report["outcomes"] if o["runs"] and not o["problem"]]
    ran.sort(key=lambda outcome: -outcome["median"]["wall_s"])
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.34 * len(ran)), layout="constrained")
    for row, outcome in enumerate(ran):
        walls = [usage["wall_s"] for usage in outcome["runs"]]
        middle = outcome["median"]["wall_s"]
        colour = OURS if outcome["name"].startswith("ai-model") else THEIRS
        axes.barh(row, middle, color=colour, height=0.66)
        axes.plot([min(walls), max(walls)], [row, row], color="#343a40", linewidth=1)
        cpu = outcome["median"]["cpu_s"] + outcome["median"]["server_cpu_s"]
        axes.text(max(walls), row, f"  {middle:.2f} s   ({cpu:.1f} s CPU)", va="center")
    axes.set_yticks(range(len(ran)), [outcome["name"] for outcome in ran])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, max(max(u["wall_s"] for u in o["runs"]) for o in ran) * 1.3)
    axes.set_xlabel("seconds (median; the line spans all rounds; CPU of client and servers)")
    axes.set_title(report["title"], loc="left", fontweight="bold")
    figure.savefig(target, dpi=130)
    pyplot.close(figure)


if __name__ == "__main__":
    said = json.loads(Path(sys.argv[1]).read_text())
    for report in said["reports"]:
        if sum(bool(o["runs"]) and not o["problem"] for o in report["outcomes"]) > 1:
            draw(report, Path(sys.argv[2]) / f"bench-{report['work']}.png")
