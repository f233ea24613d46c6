"""A model of 90,000 tensors and 1 TB: indexed and planned, in seconds and little memory."""

import json
from pathlib import Path

from benchmarks.core.models import header
from benchmarks.core.processes import Command, run
from benchmarks.core.report import MIB, Report, at_most
from benchmarks.core.stage import Stage

TENSORS = 90_000
BYTES = 10**12
BLOCKS = 1000
SECONDS = 10.0
"""What "in seconds" is held to, for any one step."""
MEMORY_MIB = 500.0
SCRIPT = Path(__file__).parents[1] / "clients" / "sparse.py"


def measure(stage: Stage) -> Report:
    """Plan it in a process of its own and look at each step."""
    path = write_sparse(stage.folder("sparse") / "model.safetensors")
    a_tenth = f"model.layers.[0-{BLOCKS // 10 - 1}]"
    command = Command((str(stage.own_bin / "python"), str(SCRIPT), str(path), a_tenth))
    usage = run([command], stage.home)
    said = json.loads(usage.output)
    report = Report("sparse-model", f"{TENSORS:,} tensors in a sparse file of 1 TB")
    report.facts = {**said["counts"], **{f"{step}, s": s for step, s in said["steps"].items()}}
    report.facts["peak MiB"] = usage.peak_bytes / MIB
    slowest = max(said["steps"], key=said["steps"].get)
    report.bars = [
        at_most("1 TB: slowest step", said["steps"][slowest], SECONDS, of=slowest, unit=" s"),
        at_most("1 TB: peak memory", usage.peak_bytes / MIB, MEMORY_MIB, of="limit", unit=" MiB"),
    ]
    return report


def write_sparse(path: Path) -> Path:
    """Write a file whose tensors take no room: a header, then a hole."""
    each = BYTES // TENSORS // 16 * 16
    per_block = TENSORS // BLOCKS
    names = (
        f"model.layers.{n // per_block}.experts.{n % per_block}.weight" for n in range(TENSORS)
    )
    head = header(dict.fromkeys(names, each))
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + each * TENSORS)
    return path
