"""A hundred clients at once: through the edge, and straight at an S3 that throttles."""

import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.core.processes import Command, clean_environment, run
from benchmarks.core.report import GIB, MIB, Report, at_most
from benchmarks.core.stage import ROOT, Stage, say
from benchmarks.peers.ours import MODEL
from benchmarks.services import edge as edges
from benchmarks.services.registry import start

CLIENTS = 100
RAW_AT_ONCE = 8
THROTTLED_AT = 16
SIZE = 64 * MIB
MACHINE = 40 * MIB
"""Memory of one client."""
VERSION = "v1"


@dataclass(frozen=True, slots=True)
class Herd:
    """What a hundred clients saw."""

    seconds: list[float]
    errors: list[str]
    wall_s: float


def measure(stage: Stage) -> Report:
    """Send the herd through the edge, then straight at the store."""
    size = SIZE
    report = Report("herd", f"{CLIENTS} clients get {size // MIB} MiB at once", work_bytes=size)
    source = stage.model("herd", size=size)
    _through_edge(stage, report, size)
    _straight(stage, report, source)
    return report


def _through_edge(stage: Stage, report: Report, size: int) -> None:
    folder = stage.folder("herd-edge")
    origin = edges.start_origin(folder, stage.store.endpoint)
    stage.serve(origin.server)
    server, settings = edges.start_edge(folder / "edge", origin.url)
    stage.serve(server)
    env = _registry(stage, folder / "registry", origin, settings)

    herds, ideals_s, sent = [], [], []
    for number in range(stage.options.repeat):  # each finds an edge that has nothing of the model
        version = f"{VERSION}-{number}"
        _push(stage, stage.model(f"herd-{number}", seed=40 + number, size=size), env, version)
        before = origin.counts()["body_bytes"]
        herds.append(_herd(stage, env, ("--model-id", MODEL, "--version", version)))
        sent.append(origin.counts()["body_bytes"] - before)
        ideals_s.append(_ideal_s(stage, env, size, version))

    ideal_s = statistics.median(ideals_s)
    errors = [error for herd in herds for error in herd.errors]
    seconds = [second for herd in herds for second in herd.seconds]
    slowest_s = None if errors else statistics.median(max(herd.seconds) for herd in herds)
    report.facts |= {
        "edge bandwidth, raw sockets that hash, GiB/s": CLIENTS * size / GIB / ideal_s,
        "ideal s, each round": [round(ideal, 2) for ideal in ideals_s],
        "slowest client s, each round": [round(max(herd.seconds, default=0), 2) for herd in herds],
        "median client s": statistics.median(seconds) if seconds else None,
        "first error": next(iter(errors), "none"),
    }
    report.bars += [
        at_most("origin bytes", max(sent) / size, 1.05, of="copies of the model"),
        at_most("failures through the edge", len(errors), 0, of=f"{CLIENTS} clients a round"),
        at_most("slowest client", slowest_s, 1.5 * ideal_s, of="1.5 x ideal", unit=" s"),
    ]


def _straight(stage: Stage, report: Report, source: Path) -> None:
    folder = stage.folder("herd-straight")
    origin = edges.start_origin(
        folder, stage.store.endpoint, "--max-concurrent", str(THROTTLED_AT), "--reset-rate", "0.01"
    )
    stage.serve(origin.server)
    env = _registry(stage, folder / "registry", origin, {})
    _push(stage, source, env, VERSION)
    herd = _herd(stage, env, ("--model-id", MODEL, "--version", VERSION))
    counts = origin.counts()
    report.facts |= {
        "straight: 503 SlowDown answers": counts["slow_downs"],
        "straight: resets": counts["resets"],
        "straight: slowest client s": max(herd.seconds, default=None),
        "straight: first error": herd.errors[0] if herd.errors else "none",
    }
    report.bars.append(
        at_most(
            f"failures straight at an S3 of {THROTTLED_AT} at once",
            len(herd.errors),
            0,
            of=f"{CLIENTS} clients",
        )
    )


def _registry(
    stage: Stage, folder: Path, origin: edges.Origin, settings: dict[str, str]
) -> dict[str, str]:
    """Start a registry with a bucket of its own, whose clients reach the store by ``origin``."""
    store = replace(stage.store, bucket=f"herd-{folder.parent.name}")
    store.make_bucket()
    folder.mkdir()
    started = start(folder, store, stage.serve, public_url=origin.url, settings=settings)
    return started.clients


def _push(stage: Stage, source: Path, env: dict[str, str], version: str) -> None:
    told = ("push", str(source), "--model-id", MODEL, "--version", version, "--json")
    cache = str(stage.folder("herd-cache"))
    program = str(stage.own_bin / "ai-model")
    run([Command((program, *told), {**env, "AI_MODEL_CACHE": cache})], stage.home)


def _ideal_s(stage: Stage, env: dict[str, str], size: int, version: str) -> float:
    """Return how long the edge, warm, needs for all models by raw sockets that hash and write.

    A few at a time, which is when it is fastest.
    """
    told = ("--url", _edge_url(env, version), "--size", str(size), "--at-once", str(RAW_AT_ONCE))
    herd = _herd(stage, env, told)
    if herd.errors:
        raise RuntimeError(herd.errors[0])
    return herd.wall_s


def _edge_url(env: dict[str, str], version: str) -> str:
    """Return the URL of the model's one object at the edge, as the registry hands it out."""
    request = urllib.request.Request(
        f"{env['AI_MODEL_ENDPOINT']}/v1/models/{MODEL}/versions/{version}/layout",
        headers={"Authorization": f"Bearer {env['AI_MODEL_TOKEN']}"},
    )
    with urllib.request.urlopen(request) as answer:
        [stored] = json.load(answer)["objects"]
    if not stored["origin_url"]:
        raise RuntimeError("the registry hands out no edge")
    return stored["url"]


def _herd(stage: Stage, env: dict[str, str], told: Sequence[str]) -> Herd:
    """Run all clients at once."""
    stage.settle(CLIENTS * (SIZE + MACHINE))
    machines = subprocess.Popen(
        (
            *(sys.executable, "-m", "benchmarks.clients.herd", *told),
            *("--clients", str(CLIENTS), "--folder", str(stage.target("herd"))),
        ),
        cwd=ROOT,
        env={**clean_environment(stage.home), **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    machines.stdout.readline()  # loaded and ready
    began = time.monotonic()
    lines = machines.communicate("go\n")[0].splitlines()
    said = [json.loads(line) for line in lines]
    errors = [item["error"] for item in said if item["error"]]
    errors += ["a client said nothing"] * (CLIENTS - len(said))
    say(f"{CLIENTS} clients, {len(errors)} failed")
    seconds = [item["seconds"] for item in said if not item["error"]]
    return Herd(seconds, errors, max(item["ended_at"] for item in said) - began)
