"""What commands about traffic refuse before they ask the registry: exit 2 and a sentence."""

import os
import subprocess
import sys

import pytest

NOWHERE = "http://127.0.0.1:9"
ROUTE = ("route", "--model-id", "m", "--version", "v1")
START = ("rollout", "start", "--model-id", "m", "--version", "v1")
PROMOTE = ("promote", "--model-id", "m", "--version", "v1")
WATCH = ("watch", "--model-id", "m", "--dir", "/nonexistent/served")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("route", "--dry-run", *PROMOTE), "--dry-run belongs behind promote"),
        (("route", "--force", *PROMOTE), "--force belongs behind promote"),
        (("route", "--reason", "why", "rollback", "--model-id", "m"), "--reason belongs behind"),
        (("route", "--traffic", "5%", *PROMOTE), "--traffic belongs behind"),
        (("route", "--model-id", "n", *PROMOTE), "--model-id belongs behind"),
        ((*ROUTE, "--shadow", "50%", "--traffic", "5%"), "--traffic and --shadow are two"),
        ((*START, "--interval", "0s"), "not more than 0"),
        ((*START, "--interval", "31d"), "at most 30 days"),
        ((*START, "--steps", "0%,5%"), "a step is more than 0%"),
        ((*START, "--max-error-rate", "1%,5%"), "not a percentage"),
        ((*START, "--reason", "x" * 5000), "Reason cannot be sent"),
        ((*WATCH, "--ready", "127.0.0.1:8000/health"), "--ready"),
        ((*WATCH, "--ready", "file:///tmp/ready"), "--ready"),
        ((*WATCH, "--ready", "http://"), "--ready"),
    ],
)
def test_it_is_refused_with_a_sentence(typed: tuple[str, ...], said: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AI_MODEL_ENDPOINT": NOWHERE}
    done = subprocess.run(
        [sys.executable, "-m", "ai_model_cli.main", *typed],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
