"""A whole model from S3: ours verifies every byte and lands atomically, peers do what they do."""

from benchmarks.core.report import Bar, Report, slower
from benchmarks.core.rounds import Outcome
from benchmarks.core.s3 import Store
from benchmarks.core.stage import Stage
from benchmarks.peers import ALL
from benchmarks.peers.ours import AiModel
from benchmarks.work.contest import pulls

FASTER_THAN = ("curl x8", "boto3", "s5cmd", "rclone", "aws cli")
TIMES = {"huggingface_hub": 4.0, "mlflow": 5.0, "dvc": 5.0}


def measure(stage: Stage) -> Report:
    """Fetch the model by every peer."""
    return _measure(stage, stage.store, Report("full-get", "a whole model from S3"))


def measure_tls(stage: Stage) -> Report:
    """Fetch the model over TLS by every peer that can be told to trust our certificate."""
    return _measure(stage, stage.tls_store, Report("full-get-tls", "a whole model, S3 over TLS"))


def _measure(stage: Stage, store: Store, report: Report) -> Report:
    kinds = [kind for kind in ALL if kind.can_tls or not store.ca]
    source = stage.model("v1")
    _, outcomes = pulls(stage, kinds, store, source, rounds=stage.options.repeat)
    report.outcomes = list(outcomes.values())
    report.work_bytes = source.stat().st_size
    report.bars = _bars(outcomes, " over TLS" if store.ca else "")
    return report


def _bars(outcomes: dict[str, Outcome], how: str) -> list[Bar]:
    ours = outcomes[AiModel.name]
    how = f"full get{how}"
    required = {"raw socket": 0.8, **TIMES}
    return [
        *(slower(how, ours, outcomes[name], at_least=1, strictly=True) for name in FASTER_THAN),
        *(
            slower(how, ours, outcomes[name], at_least=times)
            for name, times in required.items()
            if name in outcomes
        ),
    ]
