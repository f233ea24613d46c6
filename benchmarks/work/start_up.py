"""How quickly the command starts, beside importing what it is made of."""

from benchmarks.core.processes import Command
from benchmarks.core.report import Report, at_most
from benchmarks.core.rounds import Contender, Outcome, alternate
from benchmarks.core.stage import Stage

ROUNDS = 15
TIMES = 3


def measure(stage: Stage) -> Report:
    """Start both in turns, so that both see the same machine."""
    asked = {
        "ai-model --help": (str(stage.own_bin / "ai-model"), "--help"),
        "import click, httpx": (str(stage.own_bin / "python"), "-c", "import click, httpx"),
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
