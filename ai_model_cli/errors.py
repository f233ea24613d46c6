"""From an exception to a sentence on stderr, a problem document on stdout, an exit code."""

import errno
import json
import sys
import traceback
from typing import Any

import click

from ai_model.errors import AiModelError
from ai_model_cli.text import printable

ERROR, USAGE, INTEGRITY, FULL, INTERRUPTED = 1, 2, 6, 8, 130


def report(error: BaseException, *, as_json: bool) -> int:
    """Say what went wrong and return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):  # click's way to end quietly when stdout's reader has gone
        return error.code if isinstance(error.code, int) else ERROR
    problem = problem_of(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not as_json:
        click.echo(error.format_message(), err=True)
        return USAGE
    if problem["code"] == "internal":
        traceback.print_exception(error)
    click.echo(f"ai-model: {printable(problem['detail'])}", err=True)
    if as_json:
        click.echo(json.dumps(problem, indent=2))
    return int(problem["exit_code"])


def problem_of(error: BaseException) -> dict[str, Any]:
    """Return the problem document of an error, with its ``exit_code``. Pure."""
    match error:
        case AiModelError():
            problem = error.problem
        case click.Abort() | KeyboardInterrupt():
            sentence = " ".join(["Interrupted.", *_notes(error)])
            problem = _problem("interrupted", "Interrupted", sentence, INTERRUPTED)
        case click.UsageError():
            problem = _problem("usage", "Wrong usage", _usage_sentence(error), USAGE)
        case click.ClickException():
            problem = _problem("usage", "Wrong usage", error.format_message(), USAGE)
        case ValueError() if refused := _refused(error):
            problem = _problem("usage", "Wrong usage", refused, USAGE)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            problem = _problem("disk_full", "No room", f"No room left: {error}.", FULL)
        case OSError():
            problem = _problem("system", "The system refused", f"{error}.", ERROR)
        case _:
            sentence = f"This is a bug: {type(error).__name__}: {error}."
            problem = _problem("internal", "Something went wrong", sentence, ERROR)
    return problem


def _problem(code: str, title: str, detail: str, exit_code: int) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": title,
        "code": code,
        "detail": detail,
        "exit_code": exit_code,
    }


def _notes(error: BaseException) -> list[str]:
    """Return what was noted on an interruption, such as that the same command goes on."""
    return getattr(error.__cause__ or error, "__notes__", [])


def _refused(error: ValueError) -> str:
    """Return what no request can carry, where that is the error; else nothing.

    Requests are made of what was typed; answers that cannot be read are errors of their own.
    """
    pydantic = sys.modules.get("pydantic")  # whoever did not load it has no such error
    if pydantic is None or not isinstance(error, pydantic.ValidationError):
        return ""
    first = error.errors()[0]
    where = first["loc"][0] if first["loc"] else "what was typed"
    return f"{str(where).replace('_', ' ').capitalize()} cannot be sent: {first['msg']}."


def _usage_sentence(error: click.UsageError) -> str:
    """Return click's message as one line that says where help is."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the whole help
        message = "A command is missing."
    else:
        message = " ".join(error.format_message().split())
    command = error.ctx.command_path if error.ctx else "ai-model"
    return f"{message} Try `{command} --help`."
