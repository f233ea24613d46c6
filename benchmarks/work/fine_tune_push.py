"""Push of a fine-tune whose base the registry has."""

from pathlib import Path

from benchmarks.core import models
from benchmarks.core.processes import Command, Usage
from benchmarks.core.report import Report, at_most, slower
from benchmarks.core.rounds import Contender, Outcome, alternate
from benchmarks.core.stage import Stage
from benchmarks.peers.boto import Boto3
from benchmarks.peers.interface import Peer
from benchmarks.peers.ours import AiModel, AiModelLocal, answer
from benchmarks.peers.rclone import Rclone
from benchmarks.peers.s5cmd import S5cmd
from benchmarks.peers.xet import HfXet
from benchmarks.work.contest import admit

MANIFEST = 256 * 1024
"""Bytes allowed for the new manifest, which is an object of its own."""


def measure(stage: Stage) -> Report:
    """Push another fine-tune of one base each round."""
    base = stage.model("v1")
    peers, outcomes = admit(
        stage, [AiModel, AiModelLocal, HfXet, Rclone, S5cmd, Boto3], stage.store
    )
    for peer in peers.values():
        peer.stock(base, "v1")
    contenders = [_pusher(stage, peer, outcomes[peer.name]) for peer in peers.values()]
    alternate(stage, contenders, rounds=stage.options.repeat)
    report = Report("fine-tune-push", "push of a fine-tune of a tenth, base in the registry")
    report.outcomes = list(outcomes.values())
    report.work_bytes = base.stat().st_size
    ours, ours_local, xet = (outcomes[kind.name] for kind in (AiModel, AiModelLocal, HfXet))
    changed = models.changed_bytes(base)
    limit, of = 1.02 * changed + MANIFEST, f"changed {changed} + manifest"
    report.bars = [
        at_most("fine-tune push: bytes sent", ours.extra.get("bytes_sent"), limit, of=of),
        at_most("fine-tune push: bytes stored", ours.extra.get("bytes_stored"), limit, of=of),
        slower("fine-tune push to a folder: time", ours_local, xet, at_least=1, strictly=True),
        slower("fine-tune push: time", ours, _fastest(outcomes), at_least=1, strictly=True),
    ]
    return report


def _fastest(outcomes: dict[str, Outcome]) -> Outcome:
    """Return the fastest peer on the same S3: hf-xet keeps a folder."""
    ran = [outcomes[kind.name] for kind in (Rclone, S5cmd, Boto3) if outcomes[kind.name].ok]
    return min(ran, key=lambda outcome: outcome.wall_s, default=Outcome("no peer"))


def _pusher(stage: Stage, peer: Peer, outcome: Outcome) -> Contender:
    before: list[int] = []

    def tuned(number: int) -> Path:
        return stage.model(f"tuned-{number}", changed=200 + number)

    def prepare(number: int) -> list[Command]:
        before.append(stage.store.stored_bytes("registry/"))
        return peer.push(tuned(number), f"tuned-{number}")

    def after(_: int, usage: Usage) -> None:
        if type(peer) is AiModel:
            outcome.extra["bytes_stored"] = stage.store.stored_bytes("registry/") - before[-1]
            outcome.extra["bytes_sent"] = answer(usage)["bytes_sent"]

    return Contender(outcome, prepare, after)
