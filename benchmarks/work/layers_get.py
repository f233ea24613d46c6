"""``get --layers`` of a tenth of a model, beside the full get."""

from benchmarks.core import models
from benchmarks.core.processes import Command, CommandFailed, Usage
from benchmarks.core.report import Report, at_most
from benchmarks.core.rounds import Contender, Outcome, alternate
from benchmarks.core.stage import Stage
from benchmarks.peers.ours import AiModel, answer
from benchmarks.work.contest import admit

SLACK = 64 * 1024


def measure(stage: Stage) -> Report:
    """Get a tenth and all of a model in turn."""
    source, report = stage.model("v1"), Report("layers-get", "a tenth of a model's layers")
    peers, outcomes = admit(stage, [AiModel], stage.store)
    whole = outcomes[AiModel.name]
    tenth = Outcome("ai-model --layers", whole.runs[:], whole.version, "-", whole.problem)
    if peers:
        peer = peers[AiModel.name]
        peer.stock(source, "v1")
        contenders = [_getter(stage, peer, whole, ()), _getter(stage, peer, tenth, _LAYERS)]
        alternate(stage, contenders, rounds=stage.options.repeat)
    whole.name = "ai-model, all of it"
    report.outcomes = [whole, tenth]
    selected = models.selected_bytes(source)
    limit = 1.02 * selected + SLACK
    report.bars = [
        at_most(
            "layers: bytes", tenth.extra.get("bytes_fetched"), limit, of=f"selected {selected}"
        ),
        at_most(
            "layers: time",
            tenth.wall_s if tenth.ok and whole.ok else None,
            0.2 * whole.wall_s if whole.ok else 0,
            of="a fifth of the full get",
            unit=" s",
        ),
    ]
    return report


_LAYERS = ("--layers", models.A_TENTH)


def _getter(stage: Stage, peer: AiModel, outcome: Outcome, more: tuple[str, ...]) -> Contender:
    whole = models.tensor_digests(stage.model("v1"))

    def prepare(_: int) -> list[Command]:
        return [peer.get("v1", stage.target("layers"), more=more)]

    def after(_: int, usage: Usage) -> None:
        outcome.extra["bytes_fetched"] = answer(usage)["bytes_fetched"]
        arrived = models.tensor_digests(stage.landing / "layers" / "model.safetensors")
        chosen = models.tensor_names()[: len(arrived)]
        if sorted(arrived) != sorted(chosen) or any(arrived[n] != whole[n] for n in chosen):
            raise CommandFailed("other tensors arrived than were asked for")

    return Contender(outcome, prepare, after)
