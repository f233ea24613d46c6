"""How soon a change of a split takes effect and what it loses, beside a gateway that reloads."""

import json
import math
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.core.models import write_model
from benchmarks.core.processes import Command, clean_environment, run
from benchmarks.core.report import MIB, Report, at_most
from benchmarks.core.stage import ROOT, Stage, say
from benchmarks.services import gateways
from benchmarks.services.gateways import MODEL, Gateway
from benchmarks.services.registry import start

VERSIONS = ("v1", "v2")
WHOLE = 10_000
FLIPS = 50
BETWEEN_S = 1.2
"""From one change to the next, so that each one's effect is over a second after it."""
REQUESTS = 20_000
CANARY = 500
Z_999 = 3.29
"""Standard deviations of a 99.9% interval."""
LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Flips:
    """What 50 changes did.

    Attributes:
        effects_s: from asking for a change to the last request that went the old way.
        lost: requests without a good answer.
        requests: all.
    """

    effects_s: list[float]
    lost: int
    requests: int


def measure(stage: Stage) -> Report:
    """Flip ours and nginx between two versions under load, then give a canary 5%."""
    report = Report("traffic", f"{FLIPS} changes of a split under load, and 5% of {REQUESTS:,}")
    folder = stage.folder("traffic")
    registry = start(folder, stage.store, stage.serve)
    for seed, version in enumerate(VERSIONS):
        path = stage.folder(f"traffic-{version}") / "model.safetensors"
        write_model(path, MIB, seed=seed)
        told = ("push", str(path), "--model-id", MODEL, "--version", version)
        own = str(stage.own_bin / "ai-model")
        run([Command((own, *told), registry.clients)], stage.home)
    servers = gateways.start_servers(folder, stage.serve, VERSIONS)
    ours = gateways.start_ours(folder, stage.serve, registry.clients, servers)
    nginx = gateways.start_nginx(stage.folder("traffic-nginx"), stage.serve, servers)
    for gateway in (ours, nginx):
        _measure_one(stage, report, gateway, is_ours=gateway is ours)
    return report


def _measure_one(stage: Stage, report: Report, gateway: Gateway, *, is_ours: bool) -> None:
    say(gateway.name)
    gateway.split({"v1": WHOLE})
    time.sleep(BETWEEN_S)
    flips = _flip(stage, gateway)
    gateway.split({"v2": CANARY, "v1": WHOLE - CANARY})
    time.sleep(BETWEEN_S)
    with _load(stage, gateway, "--requests", str(REQUESTS), "--pause", "0") as load:
        seen = json.loads(load.stdout.readline())  # its stdin stays open: it ends by itself
    answers = [version for _, _, version in seen[:REQUESTS]]
    off = abs(answers.count("v2") - REQUESTS * CANARY // WHOLE)
    worst_s = max(flips.effects_s)
    report.facts |= {
        f"{gateway.name}: median effect, s": statistics.median(flips.effects_s),
        f"{gateway.name}: worst effect, s": worst_s,
        f"{gateway.name}: lost": f"{flips.lost} of {flips.requests:,}",
        f"{gateway.name}: 5% is, %": 100 * answers.count("v2") / REQUESTS,
    }
    if is_ours:
        spread = Z_999 * math.sqrt(REQUESTS * CANARY / WHOLE * (1 - CANARY / WHOLE))
        report.bars = [
            at_most("change to effect, worst", worst_s, LIMIT_S, of=f"{FLIPS} changes", unit=" s"),
            at_most("requests lost", flips.lost, 0, of=f"{flips.requests:,} requests"),
            at_most("5% is off by", off, spread, of="99.9% binomial", unit=" requests"),
        ]


def _flip(stage: Stage, gateway: Gateway) -> Flips:
    """Move all traffic to the other version and back, again and again, under load."""
    load = _load(stage, gateway)
    time.sleep(BETWEEN_S)
    asked: list[tuple[float, str]] = []
    for number in range(FLIPS):
        old, new = VERSIONS if number % 2 == 0 else VERSIONS[::-1]
        asked.append((time.monotonic(), old))
        gateway.split({new: WHOLE})
        time.sleep(max(0.0, asked[-1][0] + BETWEEN_S - time.monotonic()))
    seen = json.loads(load.communicate()[0])
    ends = [*(at for at, _ in asked[1:]), math.inf]
    effects = [
        max((sent - at for sent, _, said in seen if at <= sent < end and said == old), default=0.0)
        for (at, old), end in zip(asked, ends, strict=True)
    ]
    lost = sum(status != 200 for _, status, _ in seen)
    return Flips(effects, lost, len(seen))


def _load(stage: Stage, gateway: Gateway, *more: str) -> "subprocess.Popen[str]":
    argv = (sys.executable, "-m", "benchmarks.clients.traffic", "--port", str(gateway.port))
    return subprocess.Popen(
        (*argv, "--path", gateway.path, *more),
        cwd=ROOT,
        env=clean_environment(stage.home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
