"""Alternating runs: every contender once a round, so that drift of the machine hits all alike."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.core.envs import PeerUnavailable
from benchmarks.core.processes import Command, CommandFailed, Usage, run
from benchmarks.core.stage import Stage, say


@dataclass
class Outcome:
    """What one contender needed over all rounds.

    Attributes:
        name: of the contender.
        runs: one a round, as far as it came.
        version: of the contender's program.
        lacks: what it does not do.
        problem: why it did not run or did not end right; empty if it did.
        extra: what else was seen, such as bytes fetched.
    """

    name: str
    runs: list[Usage] = field(default_factory=list)
    version: str = ""
    lacks: str = ""
    problem: str = ""
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Say whether its figures count."""
        return bool(self.runs) and not self.problem

    def median(self, figure: str) -> float:
        """Return the median of ``wall_s``, ``cpu_s``, ``server_cpu_s`` or ``peak_bytes``."""
        return statistics.median(getattr(usage, figure) for usage in self.runs)

    @property
    def wall_s(self) -> float:
        """Return the median seconds of a run."""
        return self.median("wall_s")


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of a table.

    Attributes:
        outcome: where its figures go.
        prepare: makes the commands of a round, counted from 0; not timed.
        after: checks what a run left, given the round and what it used; raises ``CommandFailed``.
    """

    outcome: Outcome
    prepare: Callable[[int], list[Command]]
    after: Callable[[int, Usage], None]


def alternate(stage: Stage, contenders: Sequence[Contender], *, rounds: int) -> list[Outcome]:
    """Run all contenders in turn, ``rounds`` times and once before that does not count.

    The first time reads programs from the disk. One that fails is out, and says why.
    """
    for number in range(rounds + 1):
        shift = number % max(1, len(contenders))
        for contender in (*contenders[shift:], *contenders[:shift]):
            if not contender.outcome.problem:
                _one(stage, contender, number)
    return [contender.outcome for contender in contenders]


def _one(stage: Stage, contender: Contender, number: int) -> None:
    outcome = contender.outcome
    try:
        commands = contender.prepare(number)
        stage.settle(stage.options.size)
        before = stage.server_cpu_s()
        usage = run(commands, stage.home)
        usage = replace(usage, server_cpu_s=stage.server_cpu_s() - before)
        if number:
            outcome.runs.append(usage)
        contender.after(number, usage)
        say(f"{outcome.name:16} {usage.wall_s:8.2f} s")
    except (CommandFailed, PeerUnavailable, OSError, KeyError, ValueError) as error:
        outcome.problem = f"{type(error).__name__}: {error}"[:400]
        say(f"{outcome.name:16} {outcome.problem}")
