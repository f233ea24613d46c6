"""A busy team's day: thousands of gets of one model of 100 MB, twenty at a time."""

import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.core.processes import Command, CommandFailed, run
from benchmarks.core.report import MIB, Report, at_most
from benchmarks.core.stage import ROOT, Stage
from benchmarks.peers.ours import MODEL, AiModel
from benchmarks.peers.raw import RawSocket
from benchmarks.work.contest import engaged

AT_ONCE = 20
SIZE = 100_000_000
QUICK = 60
DAY = 2000
LIMIT_S = 1.2
SCRIPT = Path(__file__).parents[1] / "clients" / "busy.py"


def measure(stage: Stage) -> Report:
    """Run the day by clients that are up, and a shorter one by commands that start anew."""
    count = DAY if stage.options.full else QUICK
    report = Report("busy-day", f"{count} gets of 100 MB by {AT_ONCE} at a time")
    peer = engaged(stage, AiModel, stage.store)
    source = stage.model("hundred", seed=7, size=SIZE)
    peer.stock(source, "hundred")
    seconds, failures, elapsed_s = _by_clients(stage, peer, source, count)
    commands, broken = _by_commands(stage, peer, min(count, 5 * AT_ONCE))
    raw = _by_raw_sockets(stage, source, min(count, 5 * AT_ONCE))
    report.facts = {
        "median s": statistics.median(seconds),
        "95th percentile s": percentile(seconds, 95),
        "slowest s": max(seconds),
        "gets per s": count / elapsed_s,
        "MiB/s all together": count * source.stat().st_size / MIB / elapsed_s,
        "failures": len(failures),
        "first failure": next(iter(failures), "-"),
        "each a new process: 95th percentile s": percentile(commands, 95),
        "each a new process: failures": broken,
        "raw sockets that hash, 95th percentile s": percentile(raw, 95),
    }
    report.bars = [
        at_most(
            "busy day: 95th percentile", percentile(seconds, 95), LIMIT_S, of="limit", unit=" s"
        ),
        at_most("busy day: failures", len(failures) + broken, 0, of="limit"),
    ]
    return report


def percentile(values: list[float], percent: int) -> float:
    """Return the value that ``percent`` of a hundred stay at or below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-len(ordered) * percent // 100) - 1)]


def _by_clients(
    stage: Stage, peer: AiModel, source: Path, count: int
) -> tuple[list[float], list[str], float]:
    size = str(source.stat().st_size)
    stage.settle(AT_ONCE * SIZE)
    told = (str(count), str(AT_ONCE), MODEL, "hundred", str(stage.target("busy")), size)
    said = json.loads(
        run(
            [Command((str(stage.own_bin / "python"), str(SCRIPT), *told), peer.settings)],
            stage.home,
        ).output
    )
    failures = [problem for _, problem in said["done"] if problem]
    return [seconds for seconds, _ in said["done"]], failures, said["elapsed_s"]


def _by_commands(stage: Stage, peer: AiModel, count: int) -> tuple[list[float], int]:
    parent = stage.target("busy")

    def one(number: int) -> tuple[float, bool]:
        own = parent / str(number)
        command = peer.get("hundred", own / "out", cache=own / "cache")
        began = time.perf_counter()
        try:
            run([command], stage.home)
        except CommandFailed:
            return time.perf_counter() - began, False
        return time.perf_counter() - began, True

    stage.settle(AT_ONCE * SIZE)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(one, range(count)))
    stage.target("busy")
    return [seconds for seconds, _ in done], sum(not ok for _, ok in done)


def _by_raw_sockets(stage: Stage, source: Path, count: int) -> list[float]:
    """Return what the least that fetches and hashes takes: the machine's own limit.

    Raises:
        RuntimeError: one failed, so the figures would be of others.
    """
    url = RawSocket(stage, stage.store).signed(source)
    told = ("--url", url, "--size", str(source.stat().st_size), "--at-once", str(AT_ONCE))
    folder = ("--clients", str(count), "--folder", str(stage.target("busy")))
    stage.settle(AT_ONCE * SIZE)
    said = run(
        [Command((sys.executable, "-m", "benchmarks.clients.herd", *told, *folder), cwd=ROOT)],
        stage.home,
    )
    answers = [json.loads(line) for line in said.output.splitlines()[1:]]  # the first: ready
    errors = [answer["error"] for answer in answers if answer["error"]]
    if errors or len(answers) < count:
        raise RuntimeError(next(iter(errors), "a client said nothing"))
    return [answer["seconds"] for answer in answers]
