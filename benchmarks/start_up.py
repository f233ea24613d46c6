"""How long ``ai-model --help`` takes beside ``python -c "import click, httpx"``, in one run.

Prints medians of wall-clock seconds, the two taken in turns so that both see the same machine.
"""

import statistics
import subprocess
import sys
import time

ROUNDS = 15
HELP = [sys.executable, "-c", "from ai_model_cli.main import main; main()", "--help"]
IMPORTS = [sys.executable, "-c", "import click, httpx"]


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    pairs = [(seconds(HELP), seconds(IMPORTS)) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"ai-model --help       {ours:.3f} s")
    print(f"import click, httpx   {theirs:.3f} s")
    print(f"ratio                 {ours / theirs:.2f}   (bar: 3)")


if __name__ == "__main__":
    main()
