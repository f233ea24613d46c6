"""The metadata API as the registry grows: resolves a second, and how long answers take."""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.clients.fill import model_of
from benchmarks.core.processes import Command, run
from benchmarks.core.report import Report, at_least, at_most
from benchmarks.core.stage import Stage, say
from benchmarks.peers.ours import AiModel
from benchmarks.work.busy_day import percentile
from benchmarks.work.contest import engaged

CLIENTS = Path(__file__).parents[1] / "clients"
GROWTH = (500, 10_000)
GROWTH_FULL = (2000, 20_000, 200_000)
CHUNKS_EACH = 100
"""So that 200,000 versions have 20 million chunks."""
BARRED = ("list models", "list versions", "find", "lineage")
"""Questions whose 99th percentile has a bar."""
HOW = ("", "?direction=up&depth=100", "?direction=down&depth=3")
"""Ways to ask for a lineage."""
SECONDS = 4.0
CONNECTIONS = 4


class Growing(AiModel):
    """A registry of its own, that only this work fills."""

    place = "growing-registry"


def measure(stage: Stage) -> Report:
    """Fill the database step by step and ask at each."""
    growth = GROWTH_FULL if stage.options.full else GROWTH
    report = Report("metadata", f"the API at {' / '.join(f'{n:,}' for n in growth)} versions")
    peer = engaged(stage, Growing, stage.store)
    filled, seen = 0, {}
    for versions in growth:
        say(f"filling up to {versions:,} versions")
        told = (peer.registry.database_url, str(filled + 1), str(versions))
        script = (sys.executable, str(CLIENTS / "fill.py"))
        chunks = str((versions - filled) * CHUNKS_EACH)
        said = json.loads(run([Command((*script, *told, chunks))], stage.home).output)
        filled = versions
        report.facts[f"{versions:,} versions: filled in s"] = said["elapsed_s"]
        report.facts[f"{versions:,} versions: table bytes"] = said["sizes"]
        seen = _ask_all(stage, peer, versions)
        for question, answer in seen.items():
            report.facts[f"{versions:,} versions: {question}"] = answer
        report.facts[f"{versions:,} versions: push of 1 MB, s"] = _push(stage, peer, versions)
    report.bars = _bars(seen, growth[-1])
    return report


def _ask_all(stage: Stage, peer: AiModel, versions: int) -> dict[str, dict[str, float]]:
    return {name: _ask(stage, peer, paths) for name, paths in _questions(versions).items()}


def _questions(versions: int) -> dict[str, list[str]]:
    """Return what is asked, as paths below ``/v1``; of every version, or evenly of 2,000."""
    some = range(1, versions + 1, max(1, versions // 2000 | 1))
    models = sorted({model_of(v) for v in some})
    return {
        "resolve": [f"models/{model_of(v)}/versions/v{v}" for v in some],
        "resolve alias": [f"models/{model}/versions/production" for model in models],
        "list models": ["models?page_size=100", "models?prefix=team-7/&page_size=100"],
        "list versions": [f"models/{model}/versions?page_size=100" for model in models],
        "find": [f"versions?{asked}" for v in some for asked in _asked_of(v)],
        "lineage": [
            f"models/{model_of(v)}/versions/v{v}/lineage{how}" for v in some for how in HOW
        ],
    }


def _asked_of(version: int) -> Iterator[str]:
    """Yield queries of which each but the last is true of this version, and perhaps of others."""
    digest = hashlib.sha256(f"object{version}".encode()).hexdigest()
    yield f"sha256=sha256:{digest}"
    commit = hashlib.sha256(f"commit{version // 5}".encode()).hexdigest()[: 7 + version % 34]
    yield f"git_commit={commit}"
    yield f"dataset_id=corpus-{version % 40}&dataset_version=d{version % 9}"
    yield f"param=lr={version % 7 / 1000}"
    yield f"param=lr={version % 7 / 1000}&param=epochs={version % 50}&tag=stage=nightly"
    yield f"tag=run={version % 500}&prefix={model_of(version).partition('/')[0]}/"
    yield f"created_by=ci-{version % 5}"
    yield f"dataset_id=corpus-{version % 40}&param=epochs={(version + 1) % 50}"


def _ask(stage: Stage, peer: AiModel, paths: list[str]) -> dict[str, float]:
    """Ask for paths from several connections at once; say rate, times and the service's CPU."""
    listed = stage.scratch / "paths.txt"
    listed.write_text("\n".join(f"/v1/{path}" for path in paths))
    endpoint, token = urlsplit(peer.settings["AI_MODEL_ENDPOINT"]), peer.settings["AI_MODEL_TOKEN"]
    where = (endpoint.hostname or "", str(endpoint.port), token)
    how = (str(CONNECTIONS), str(SECONDS), str(listed))
    before = peer.registry.cpu_s()
    command = Command((sys.executable, str(CLIENTS / "load.py"), *where, *how))
    said = json.loads(run([command], stage.home).output)
    cpu_s, times = peer.registry.cpu_s() - before, said["times"]
    answer = {
        "a second": len(times) / said["elapsed_s"],
        "a second of a core": len(times) / cpu_s if cpu_s else 0.0,
        "p50 ms": percentile(times, 50) * 1000,
        "p99 ms": percentile(times, 99) * 1000,
    }
    return {**answer, "wrong": said["wrong"]} if said["wrong"] else answer


def _push(stage: Stage, peer: AiModel, versions: int) -> float:
    source = stage.model(f"at-{versions}", seed=versions, size=1024 * 1024)
    return run(peer.push(source, f"at-{versions}"), stage.home).wall_s


def _bars(seen: dict[str, dict[str, float]], versions: int) -> list:
    at = f"at {versions:,} versions"
    resolves = seen["resolve"]
    bars = [
        at_least(
            "metadata: resolves a second a core",
            None if "wrong" in resolves else resolves["a second of a core"],
            1000,
            of=at,
        )
    ]
    for question in BARRED:
        answer = seen[question]
        figure = None if "wrong" in answer else answer["p99 ms"]
        bars.append(at_most(f"metadata: {question}, p99", figure, 50, of=at, unit=" ms"))
    return bars
