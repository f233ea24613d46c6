"""``python -m benchmarks.plots RESULT.json ...``: a page for the docs out of runs' figures.

The page says nothing that the runs did not print. matplotlib lives in an environment of its own.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.core.envs import Envs
from benchmarks.core.report import BAR_COLUMNS, Bar, table
from benchmarks.core.stage import CACHE, ROOT

IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "benchmarks.md"
SCRIPT = Path(__file__).parent / "clients" / "plot.py"
HEAD = """# Benchmarks

Every peer does the same work beside ours in one run, in turn, on the same machine. The figures are
medians of alternating rounds after one that does not count. Downloads land in memory (`/dev/shm`),
so that a disk's writeback is not what is measured, and memory that a run may take is touched before
it, since a virtual machine's host may have taken it back. All use one SeaweedFS, whose share of the
processors stands under "server CPU s"; hf-xet alone reads and writes a local folder. Ours verifies
every byte against the manifest and lands files atomically; what a peer does not do stands in its
row. The raw socket is a script that fetches and hashes and does nothing else: about what a machine
allows at most, so its ratio to each peer stands among the facts. The bars are what this project
wants to reach; those that it misses stand here as well.
"""
RUN = """
## {command}

{cpus} cores shared by all clients and servers, {at}, commit `{commit}`, Python {python}, load
before it {load_1m}; models of {mib:,.0f} MiB where the title says nothing else, {repeat} rounds.

{bars}
"""


def main() -> None:
    """Draw the pictures and write the page."""
    sources = [Path(path) for path in sys.argv[1:]] or [max((CACHE / "results").glob("*.json"))]
    python = Envs(CACHE / "envs").ensure("plots", ("matplotlib",)) / "python"
    IMAGES.mkdir(parents=True, exist_ok=True)
    for source in sources:
        subprocess.run((python, SCRIPT, source, IMAGES), check=True)
    PAGE.write_text(page([json.loads(source.read_text()) for source in sources]))
    print(f"wrote {PAGE} and {IMAGES}/bench-*.png")


def page(runs: Sequence[dict[str, Any]]) -> str:
    """Return the page."""
    parts = [HEAD]
    for said in _newest(runs):
        options, ran_on = said["options"], said["machine"]
        bars = (Bar(**bar).cells() for report in said["reports"] for bar in report["bars"])
        parts.append(
            RUN.format(
                **ran_on,
                command=said["command"],
                mib=options["size"] / 2**20,
                repeat=options["repeat"],
                bars=table(BAR_COLUMNS, bars),
            )
        )
        for report in said["reports"]:
            parts.append(report["text"].strip().replace("## ", "### ", 1) + "\n")
            image = f"bench-{report['work']}.png"
            if (IMAGES / image).exists():
                parts.append(f"![{report['title']}](images/{image})\n")
    return "\n".join(parts).replace("\n\n\n", "\n\n")


def _newest(runs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield runs without the works that a later one measured again."""
    for number, said in enumerate(runs):
        later = {report["work"] for after in runs[number + 1 :] for report in after["reports"]}
        kept = [report for report in said["reports"] if report["work"] not in later]
        yield {**said, "reports": kept}


if __name__ == "__main__":
    main()
