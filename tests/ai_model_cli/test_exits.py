"""Every error is one sentence on stderr, an exit code, and with --json a problem document."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from ai_model import errors
from ai_model_cli.errors import problem_of

COMMAND = [sys.executable, "-m", "ai_model_cli.main"]
NOWHERE = "http://127.0.0.1:9"


def run(*arguments, **options):
    environment = {"PATH": os.environ["PATH"], "HOME": str(options.pop("home", "/nonexistent"))}
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        **options,
    )


def test_an_unknown_command_names_near_ones():
    done = run("pusk")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "ai-model: No such command 'pusk'. Did you mean push? Try `ai-model --help`.\n"
    )


@pytest.mark.parametrize("verbs", [[], ["alias"], ["token"]])
def test_without_a_verb_the_help_is_shown_as_it_is(verbs):
    done = run(*verbs)
    helped = run(*verbs, "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == helped.stdout
    assert len(done.stderr.splitlines()) > 10


def test_without_a_verb_json_is_one_sentence():
    done = run("alias", "--json")
    assert done.returncode == 2
    assert done.stderr == f"ai-model: {json.loads(done.stdout)['detail']}\n"


def test_wrong_usage_with_json_is_a_problem_document():
    done = run("get", "--json")
    problem = json.loads(done.stdout)
    assert done.returncode == problem["exit_code"] == 2
    assert problem["code"] == "usage"
    assert done.stderr == f"ai-model: {problem['detail']}\n"
    assert "--model-id" in problem["detail"]


def test_common_options_stand_before_or_behind_the_verb():
    for arguments in (
        ["--json", "ls", "--endpoint", "ftp://x"],
        ["--endpoint", "ftp://x", "ls", "--json"],
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert "ftp://x" in json.loads(done.stdout)["detail"]


def test_version_is_that_of_the_distribution():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("ai-model 0.")


def test_yank_needs_a_reason_or_undo():
    assert run("yank", "--model-id", "m", "--version", "v1").returncode == 2


def test_a_token_lives_for_a_span_of_time():
    done = run("token", "create", "ci", "--expires-in", "soon")
    assert done.returncode == 2
    assert "30d" in done.stderr


def test_login_without_a_token_on_stdin_is_wrong_usage():
    done = run("login", "--endpoint", NOWHERE, input="\n")
    assert done.returncode == 2
    assert done.stderr == "ai-model: There is no token on stdin. Try `ai-model login --help`.\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_is_a_script(shell):
    done = run("completion", shell)
    assert done.returncode == 0
    assert "_AI_MODEL_COMPLETE" in done.stdout
    assert json.loads(run("completion", shell, "--json").stdout)["script"].strip() in done.stdout


def test_completion_knows_the_verbs():
    asked = {"_AI_MODEL_COMPLETE": "fish_complete", "COMP_WORDS": "ai-model sh", "COMP_CWORD": "sh"}
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, check=False, env=os.environ | asked
    )
    assert "show" in done.stdout


def test_a_closed_pipe_is_quiet():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (errors.PathNotFound("x"), "path_not_found", 3),
        (errors.service_problem(403, {"code": "forbidden"}), "forbidden", 4),
        (errors.service_problem(409, {"code": "version_conflict"}), "version_conflict", 5),
        (errors.IntegrityError("Bytes differ."), "integrity_failed", 6),
        (errors.service_problem(503, {}), "http_503", 7),
        (errors.DiskFull("/", needed=2, free=1), "disk_full", 8),
        (OSError(errno.ENOSPC, "No space left on device"), "disk_full", 8),
        (PermissionError(errno.EACCES, "Permission denied", "x"), "system", 1),
        (click.Abort(), "interrupted", 130),
        (KeyboardInterrupt(), "interrupted", 130),
        (ZeroDivisionError("division by zero"), "internal", 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error, code, exit_code):
    problem = problem_of(error)
    assert (problem["code"], problem["exit_code"]) == (code, exit_code)
    assert problem["detail"].endswith(".")


@pytest.mark.parametrize(
    ("detail", "sentence"),
    [
        ("there is no model 'nope'", "There is no model 'nope'."),
        ("git_commit: it is not hex", "git_commit: it is not hex."),
        ("metadata.groups is too long", "metadata.groups is too long."),
        ("'v1' is an alias", "'v1' is an alias."),
        ("Is the endpoint right?", "Is the endpoint right?"),
    ],
)
def test_what_the_service_says_is_a_sentence(detail, sentence):
    assert errors.service_problem(404, {"detail": detail}).sentence == sentence


def test_an_interruption_says_what_was_noted_on_it():
    interruption = KeyboardInterrupt()
    interruption.add_note("What was sent is kept.")
    aborted = click.Abort()
    aborted.__cause__ = interruption
    for error in (interruption, aborted):
        assert problem_of(error)["detail"] == "Interrupted. What was sent is kept."


def test_ctrl_c_ends_with_130():
    process = subprocess.Popen(
        [*COMMAND, "login", "--endpoint", NOWHERE, "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_until_it_reads(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "ai-model: Interrupted.\n"
    assert json.loads(out)["code"] == "interrupted"


def _wait_until_it_reads(process):
    """Wait until the process sleeps in read(2) of its stdin."""
    for _ in range(400):
        if Path(f"/proc/{process.pid}/syscall").read_text().startswith("0 0x0 "):
            return
        time.sleep(0.05)
    raise AssertionError("it never read its stdin")
