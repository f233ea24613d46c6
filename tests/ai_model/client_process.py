"""A push or get in a process of its own, as the tests kill them.

``python -m tests.ai_model.client_process push PATH MODEL VERSION`` or ``get MODEL REF OUTPUT
[LAYERS]``; prints the result as JSON. With ``AI_MODEL_TEST_DIE_AT=phase:fraction`` the process
sends itself one signal as soon as that phase is so far: SIGKILL, or what
``AI_MODEL_TEST_DIE_BY`` names.
"""

import json
import os
import re
import signal
import sys
from pathlib import Path

from ai_model import AiModelError, Progress, Registry


def main(arguments: list[str]) -> int:
    phase, _, fraction = os.environ.get("AI_MODEL_TEST_DIE_AT", ":2").partition(":")
    deadly = [signal.Signals[os.environ.get("AI_MODEL_TEST_DIE_BY", "SIGKILL")]]

    def watch(progress: Progress) -> None:
        if progress.phase == phase and progress.done >= float(fraction) * max(progress.total, 1):
            while deadly:
                os.kill(os.getpid(), deadly.pop())

    verb, *rest = arguments
    with Registry() as registry:
        try:
            if verb == "push":
                result = registry.push(rest[0], rest[1], rest[2], on_progress=watch)
            else:
                result = registry.get(
                    rest[0], rest[1], output=rest[2], layers=rest[3:], on_progress=watch
                )
        except AiModelError as error:
            print(json.dumps(error.problem))
            return error.exit_code
    print(json.dumps({**result.to_json(), "peak_rss": peak_rss()}))
    return 0


def peak_rss() -> int:
    """Return the most memory this process held, in bytes (getrusage counts the parent's too)."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
