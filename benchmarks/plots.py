"""``python -m benchmarks.plots RESULT.json``: a page for the docs out of one run's figures.

The page says nothing that the run did not print. matplotlib lives in an environment of its own.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.core.envs import Envs
from benchmarks.core.stage import CACHE, ROOT

IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "benchmarks.md"
SCRIPT = Path(__file__).parent / "clients" / "plot.py"
HEAD = """# Benchmarks

One run of

    {command}

on {cpus} cores shared by all clients and servers, {at}, commit `{commit}`,
Python {python}, load before it {load_1m}. Models of {mib:,.0f} MiB; medians of {repeat}
alternating rounds after one that does not count. Downloads land in memory (`/dev/shm`)
unless `--place` says otherwise, so that a disk's writeback is not what is measured. All use
one SeaweedFS on the same machine, but for hf-xet, which reads and writes a local folder. Ours
verifies every byte against the manifest and lands files atomically; what a peer does not do
stands in its row.

## Bars

{bars}
"""


def main() -> None:
    """Draw the pictures and write the page."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else max((CACHE / "results").glob("*.json"))
    said = json.loads(source.read_text())
    python = Envs(CACHE / "envs").ensure("plots", ("matplotlib",)) / "python"
    IMAGES.mkdir(parents=True, exist_ok=True)
    subprocess.run((python, SCRIPT, source, IMAGES), check=True)
    PAGE.write_text(page(said))
    print(f"wrote {PAGE} and {IMAGES}/bench-*.png")


def page(said: dict[str, Any]) -> str:
    """Return the page."""
    options, ran_on = said["options"], said["machine"]
    head = HEAD.format(
        **ran_on,
        command=said["command"],
        mib=options["size"] / 2**20,
        repeat=options["repeat"],
        bars=said["bars"],
    )
    parts = [head]
    for report in said["reports"]:
        parts.append(report["text"].strip() + "\n")
        image = f"bench-{report['work']}.png"
        if (IMAGES / image).exists():
            parts.append(f"![{report['title']}](images/{image})\n")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
