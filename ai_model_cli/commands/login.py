"""``ai-model login``: keep an endpoint and a token in the config file."""

import os
import sys
from pathlib import Path

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation


@click.command()
@options.common_options
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Check a token and keep it, with the endpoint, in the config file.

    The token is asked for, or read from stdin where that is no terminal. The
    file is readable by its owner alone.

    \b
    Examples:
      ai-model login --endpoint https://models.example.org
      ai-model login --endpoint https://models.example.org < token.txt
    """
    from ai_model.config import config_path, save_login  # lazy: --help needs none of it

    path = invocation.config or config_path()
    invocation.config = path if path.exists() else Path(os.devnull)  # a first login makes it
    invocation.token = invocation.token or _read_token()
    with invocation.registry() as registry:
        identity = registry.whoami()
        endpoint = registry.config.endpoint
    save_login(endpoint, invocation.token, path=path)
    document = {"endpoint": endpoint, "name": identity.name, "config": str(path)}
    invocation.answer(document, [f"{identity.name} at {endpoint}, kept in {path}"])


def _read_token() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True)).strip()
    token = sys.stdin.readline().strip()
    if not token:
        raise click.UsageError("There is no token on stdin.")
    return token
