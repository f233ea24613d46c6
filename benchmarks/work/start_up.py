"""How quickly the command starts, beside importing what it is made of."""

import sys

from benchmarks.core.processes import Command
from benchmarks.core.report import Report, at_most
from benchmarks.core.rounds import Contender, Outcome, alternate
from benchmarks.core.stage import Stage
from benchmarks.services.registry import PROGRAM

ROUNDS = 15
TIMES = 3


def measure(stage: Stage) -> Report:
    """Start both in turns, so that both see the same machine."""
    asked = {
        "ai-model --help": (PROGRAM, "--help"),
        "import click, httpx": (sys.executable, "-c", "import click, httpx"),
    }
    report = Report("start-up", "how quickly the command starts")
    contenders = [
        Contender(Outcome(name), lambda _, argv=argv: [Command(argv)], lambda *_: None)
        for name, argv in asked.items()
    ]
    ours, theirs = report.outcomes = alternate(stage, contenders, rounds=ROUNDS)
    limit = TIMES * theirs.wall_s
    report.bars = [
        at_most("start of --help", ours.wall_s, limit, of=f"{TIMES} x {theirs.name}", unit=" s")
    ]
    return report
