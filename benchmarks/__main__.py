"""``python -m benchmarks``: measure, print tables and bars, keep the figures as JSON."""

import argparse
import shlex
import signal
import sys
import traceback
from pathlib import Path

from benchmarks.core.report import Report, bars_table, machine, save, table
from benchmarks.core.stage import Options, Stage, say
from benchmarks.peers import ALL as PEERS
from benchmarks.work import ALL as WORK

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def main() -> int:
    """Run what was asked for; 1 if a bar was missed or could not be measured."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped
    if asked.list:
        print("\n".join(WORK))
        print("\n" + table(("peer", "does not"), ([p.name, p.lacks] for p in PEERS)))
        return 0
    size = asked.size or (UNITS["GiB"] * 2 if asked.full else UNITS["MiB"] * 256)
    options = Options(size, asked.repeat, asked.full, asked.place)
    command = shlex.join(("python", "-m", "benchmarks", *sys.argv[1:]))
    ran_on, reports = machine(), []
    with Stage(options) as stage:
        for name in asked.only or WORK:
            say(f"== {name}")
            reports.append(_measured(name, stage))
            print(reports[-1].text(), flush=True)
            kept = save(reports, options, ran_on, command)  # what follows may be interrupted
    bars = [bar for report in reports for bar in report.bars]
    print("\n## bars\n\n" + bars_table(reports))
    print(f"{options.size} bytes, {options.repeat} rounds, {ran_on}")
    print(f"kept as {kept}")
    broken = [report.work for report in reports if "error" in report.facts]
    return int(bool(broken) or not all(bar.met for bar in bars))


def _measured(name: str, stage: Stage) -> Report:
    """Measure one work; an error of the harness is a row of the report, and the rest goes on."""
    try:
        return WORK[name](stage)
    except Exception as error:  # noqa: BLE001 - one broken work must not hide the others
        traceback.print_exc()
        return Report(name, "did not run", facts={"error": f"{type(error).__name__}: {error}"})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=WORK, help="these works")
    parser.add_argument("--size", type=_size, help="bytes of a model, such as 64MiB [256MiB]")
    parser.add_argument("--repeat", type=int, default=3, help="rounds, of which the median counts")
    parser.add_argument("--full", action="store_true", help="the sizes and counts of the bars")
    parser.add_argument("--place", type=Path, help="folder where downloads land [/dev/shm]")
    parser.add_argument("--list", action="store_true", help="list works and peers")
    return parser.parse_args()


def _size(text: str) -> int:
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
