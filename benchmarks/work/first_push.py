"""First push of a model that the store has nothing of, hashing included."""

from pathlib import Path

from benchmarks.core.report import Bar, Report, slower
from benchmarks.core.rounds import Outcome
from benchmarks.core.stage import Stage
from benchmarks.peers import ALL
from benchmarks.peers.ours import AiModel, AiModelLocal
from benchmarks.peers.xet import HfXet
from benchmarks.work.contest import pushes

HASHING = ("rclone", "dvc", "git-lfs")
"""Peers on the same S3. hf-xet hashes too, into a folder: ours on a folder is set beside it."""


def measure(stage: Stage) -> Report:
    """Push a new model each round by every peer."""
    kinds = [*(kind for kind in ALL if kind.can_push), AiModelLocal]

    def source(number: int) -> Path:
        stage.forget_model(f"first-{number - 1}")
        return stage.model(f"first-{number}", seed=100 + number)

    _, outcomes = pushes(stage, kinds, stage.store, source, rounds=stage.options.repeat)
    report = Report("first-push", "first push of a model, hashing included")
    report.outcomes = list(outcomes.values())
    report.work_bytes = source(stage.options.repeat).stat().st_size
    report.bars = _bars(outcomes)
    stage.forget_model(f"first-{stage.options.repeat}")
    return report


def _bars(outcomes: dict[str, Outcome]) -> list[Bar]:
    ran = [outcomes[name] for name in HASHING if outcomes[name].ok]
    fastest = min(ran, key=lambda outcome: outcome.wall_s, default=Outcome("no peer"))
    ours, ours_local, xet = (outcomes[kind.name] for kind in (AiModel, AiModelLocal, HfXet))
    return [
        slower("first push", ours, fastest, at_least=0.8),
        slower("first push to a folder", ours_local, xet, at_least=0.8),
    ]
