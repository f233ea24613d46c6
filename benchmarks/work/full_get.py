"""A whole model from S3: ours verifies every byte and lands atomically, peers do what they do."""

from benchmarks.core.report import Bar, Report, slower
from benchmarks.core.rounds import Outcome
from benchmarks.core.s3 import Store
from benchmarks.core.stage import Stage
from benchmarks.peers import ALL
from benchmarks.peers.awscli import AwsCli
from benchmarks.peers.boto import Boto3
from benchmarks.peers.curl import Curl
from benchmarks.peers.dvc import Dvc
from benchmarks.peers.hub import HuggingFaceHub
from benchmarks.peers.lfs import GitLfs
from benchmarks.peers.mlflow import MLflow
from benchmarks.peers.ours import AiModel
from benchmarks.peers.raw import RawSocket
from benchmarks.peers.rclone import Rclone
from benchmarks.peers.s5cmd import S5cmd
from benchmarks.peers.xet import HfXet
from benchmarks.work.contest import pulls

SITTINGS = (
    (Curl, Boto3, S5cmd, Rclone, AwsCli),
    (HuggingFaceHub, MLflow),
    (HfXet, Dvc, GitLfs),
)
"""Who is set beside ours and the raw socket at once. What a sitting reads has to fit into the page
cache, all copies of it: else a run measures the disk, and which one does is chance."""

FASTER_THAN = ("curl x8", "boto3", "s5cmd", "rclone", "aws cli")
TIMES = {"huggingface_hub": 4.0, "mlflow": 5.0, "dvc": 5.0}


assert {AiModel, RawSocket}.union(*SITTINGS) == set(ALL), "a peer has no sitting"


def measure(stage: Stage) -> Report:
    """Fetch the model by every peer."""
    return _measure(stage, stage.store, Report("full-get", "a whole model from S3"))


def measure_tls(stage: Stage) -> Report:
    """Fetch the model over TLS by every peer that can be told to trust our certificate."""
    return _measure(stage, stage.tls_store, Report("full-get-tls", "a whole model, S3 over TLS"))


def _measure(stage: Stage, store: Store, report: Report) -> Report:
    source = stage.model("v1")
    report.work_bytes = source.stat().st_size
    how = "full get over TLS" if store.ca else "full get"
    for peers in SITTINGS:
        kinds = [kind for kind in peers if kind.can_tls or not store.ca]
        if not kinds:
            continue
        kinds = [AiModel, RawSocket, *kinds]
        _, outcomes = pulls(stage, kinds, store, source, rounds=stage.options.repeat)
        report.outcomes += outcomes.values()
        report.bars += _bars(outcomes, how)
        report.facts |= _ceilings(outcomes)
    ours, raw = (_of_all_sittings(kind.name, report.outcomes) for kind in (AiModel, RawSocket))
    report.bars.append(slower(f"{how}, all sittings", ours, raw, at_least=0.8))
    return report


def _bars(outcomes: dict[str, Outcome], how: str) -> list[Bar]:
    ours = outcomes[AiModel.name]
    return [
        *(
            slower(how, ours, outcomes[name], at_least=1, strictly=True)
            for name in FASTER_THAN
            if name in outcomes
        ),
        *(
            slower(how, ours, outcomes[name], at_least=times)
            for name, times in TIMES.items()
            if name in outcomes
        ),
    ]


def _of_all_sittings(name: str, outcomes: list[Outcome]) -> Outcome:
    """Number what one contender did in each sitting, and return it as one."""
    own = [outcome for outcome in outcomes if outcome.name == name]
    whole = Outcome(name, problem=next((outcome.problem for outcome in own if outcome.problem), ""))
    for number, outcome in enumerate(own, 1):
        whole.runs += outcome.runs
        outcome.name += f", sitting {number}"
    return whole


def _ceilings(outcomes: dict[str, Outcome]) -> dict[str, float]:
    """Return how much faster than each peer a client is that only fetches and hashes."""
    raw = outcomes[RawSocket.name]
    return {
        f"raw socket that hashes, times {name}": outcomes[name].wall_s / raw.wall_s
        for name in (*FASTER_THAN, *TIMES)
        if name in outcomes and outcomes[name].ok and raw.ok
    }
