"""Tables for people, JSON for plots, and the bars: what must hold, and whether it does."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.core.rounds import Outcome
from benchmarks.core.stage import CACHE, ROOT, Options

MIB, GIB = 2**20, 2**30
BAR_COLUMNS = ("bar", "ours", "peer", "ratio", "required", "met")


@dataclass(frozen=True, slots=True)
class Bar:
    """One requirement. ``met`` is None where it could not be measured."""

    name: str
    ours: str
    peer: str
    ratio: float | None
    required: str
    met: bool | None

    def cells(self) -> list[str]:
        """Return the bar as a row."""
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        met = {True: "yes", False: "NO", None: "not measured"}[self.met]
        return [self.name, self.ours, self.peer, ratio, self.required, met]


@dataclass
class Report:
    """What one piece of work measured."""

    work: str
    title: str
    outcomes: list[Outcome] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    work_bytes: int = 0

    def text(self) -> str:
        """Return the report as tables."""
        parts = [f"\n## {self.work}: {self.title}\n"]
        if self.outcomes:
            parts.append(table(_OUTCOME_COLUMNS, (_row(o, self.work_bytes) for o in self.outcomes)))
        if self.facts:
            parts.append(table(("fact", "value"), ([k, _short(v)] for k, v in self.facts.items())))
        if self.bars:
            parts.append(table(BAR_COLUMNS, (bar.cells() for bar in self.bars)))
        return "\n".join(parts)


_OUTCOME_COLUMNS = (
    "", "version", "s", "MiB/s", "client CPU s", "server CPU s", "peak MiB", "does not",
)  # fmt: skip


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, its columns aligned."""
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    padded = ([c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in padded)


def bars_table(reports: Iterable[Report]) -> str:
    """Return all bars as one table."""
    return table(BAR_COLUMNS, (bar.cells() for report in reports for bar in report.bars))


def slower(
    name: str, ours: Outcome, peer: Outcome, *, at_least: float, strictly: bool = False
) -> Bar:
    """Return the bar: the peer takes at least ``at_least`` times as long as ours."""
    required = f"{'>' if strictly else '>='} {at_least:g} x as fast"
    if not (ours.ok and peer.ok):
        return Bar(name, _seconds(ours), f"{peer.name} {_seconds(peer)}", None, required, None)
    ratio = peer.wall_s / ours.wall_s
    met = ratio > at_least if strictly else ratio >= at_least
    return Bar(name, _seconds(ours), f"{peer.name} {_seconds(peer)}", ratio, required, met)


def at_most(name: str, ours: float | None, limit: float, *, of: str, unit: str = "") -> Bar:
    """Return the bar: a figure of ours is at most ``limit``, which ``of`` explains."""
    if ours is None:
        return Bar(name, "-", of, None, f"<= {limit:,.6g}{unit}", None)
    ratio = ours / limit if limit else None
    return Bar(name, f"{ours:,.6g}{unit}", of, ratio, f"<= {limit:,.6g}{unit}", ours <= limit)


def at_least(name: str, ours: float | None, limit: float, *, of: str, unit: str = "") -> Bar:
    """Return the bar: a figure of ours is at least ``limit``."""
    if ours is None:
        return Bar(name, "-", of, None, f">= {limit:,.6g}{unit}", None)
    return Bar(
        name, f"{ours:,.6g}{unit}", of, ours / limit, f">= {limit:,.6g}{unit}", ours >= limit
    )


def machine() -> dict[str, Any]:
    """Return what ran it."""
    commit = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "cpus": len(os.sched_getaffinity(0)),
        "load_1m": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def save(reports: Sequence[Report], options: Options, ran_on: dict[str, Any], command: str) -> Path:
    """Write the results as JSON and return where."""
    folder = CACHE / "results"
    folder.mkdir(parents=True, exist_ok=True)
    said = {"size": options.size, "repeat": options.repeat, "full": options.full}
    value = {
        "command": command,
        "machine": ran_on,
        "options": said,
        "bars": bars_table(reports),
        "reports": [_json(report) for report in reports],
    }
    path = folder / f"{ran_on['at'].replace(':', '')}.json"
    path.write_text(json.dumps(value, indent=1))
    return path


def _json(report: Report) -> dict[str, Any]:
    value = {**asdict(report), "text": report.text()}
    for outcome, said in zip(report.outcomes, value["outcomes"], strict=True):
        for usage in said["runs"]:
            del usage["output"]
        if outcome.runs:
            said["median"] = {name: outcome.median(name) for name in _FIGURES}
    return value


_FIGURES = ("wall_s", "cpu_s", "server_cpu_s", "peak_bytes")


def _row(outcome: Outcome, size: int) -> list[str]:
    if not outcome.ok:
        return [outcome.name, outcome.version, "-", "-", "-", "-", "-", outcome.problem or "no run"]
    return [
        outcome.name,
        outcome.version,
        f"{outcome.wall_s:.2f}",
        f"{size / MIB / outcome.wall_s:.0f}" if size else "-",
        f"{outcome.median('cpu_s'):.2f}",
        f"{outcome.median('server_cpu_s'):.2f}",
        f"{outcome.median('peak_bytes') / MIB:.0f}",
        outcome.lacks,
    ]


def _seconds(outcome: Outcome) -> str:
    return f"{outcome.wall_s:.2f} s" if outcome.ok else "-"


def _short(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
