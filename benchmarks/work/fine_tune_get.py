"""Get of a fine-tune that changed a tenth of the tensors, the base being at hand."""

from pathlib import Path

from benchmarks.core import models
from benchmarks.core.processes import Command, Usage, run
from benchmarks.core.report import Bar, Report, at_most, slower
from benchmarks.core.rounds import Contender, Outcome, alternate
from benchmarks.core.stage import Stage
from benchmarks.peers.boto import Boto3
from benchmarks.peers.curl import Curl
from benchmarks.peers.ours import AiModel, answer
from benchmarks.peers.rclone import Rclone
from benchmarks.peers.s5cmd import S5cmd
from benchmarks.peers.xet import HfXet
from benchmarks.work.contest import pulls, same

SLACK = 64 * 1024
PRODUCTS = (Curl, Boto3, S5cmd, Rclone)


def measure(stage: Stage) -> Report:
    """Get the fine-tune beside the base; let the fastest peers fetch it whole."""
    base, tuned = stage.model("v1"), stage.model("v2", changed=2)
    rounds = stage.options.repeat
    peers, outcomes = pulls(stage, [AiModel, *PRODUCTS, HfXet], stage.store, tuned, rounds=rounds)
    full = outcomes.pop(AiModel.name)
    delta = Outcome("ai-model, base at hand", version=full.version, lacks="-", problem=full.problem)
    if AiModel.name in peers:
        peers[AiModel.name].stock(base, "v1")
        alternate(stage, [_getter(stage, peers[AiModel.name], delta, tuned)], rounds=rounds)
    full.name = "ai-model, nothing at hand"
    report = Report("fine-tune-get", "a fine-tune of a tenth, base at hand")
    report.outcomes = [delta, full, *outcomes.values()]
    report.work_bytes = tuned.stat().st_size
    report.bars = _bars(delta, [outcomes[kind.name] for kind in PRODUCTS], tuned)
    return report


def _getter(stage: Stage, peer: AiModel, outcome: Outcome, tuned: Path) -> Contender:
    cache = stage.folder("base-cache")

    def prepare(number: int) -> list[Command]:
        base = stage.landing / "base"
        if number == 0:
            run([peer.get("v1", stage.target("base"), cache=cache)], stage.home)
        assert base.is_dir()
        return [peer.get("v2", stage.target("tuned"), cache=cache)]

    def after(_: int, usage: Usage) -> None:
        outcome.extra["bytes_fetched"] = answer(usage)["bytes_fetched"]
        same(tuned, stage.landing / "tuned" / tuned.name)
        stage.target("tuned")  # a copy left here would be at hand the next time

    return Contender(outcome, prepare, after)


def _bars(delta: Outcome, products: list[Outcome], tuned: Path) -> list[Bar]:
    changed = models.changed_bytes(tuned)
    fetched, limit = delta.extra.get("bytes_fetched"), 1.02 * changed + SLACK
    ran = [outcome for outcome in products if outcome.ok]
    fastest = min(ran, key=lambda outcome: outcome.wall_s, default=Outcome("no peer"))
    return [
        at_most("fine-tune get: bytes", fetched, limit, of=f"changed {changed}"),
        slower("fine-tune get: time", delta, fastest, at_least=2),
    ]
