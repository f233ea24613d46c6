"""``ai-model token``: make, list and end tokens. For admins."""

import re
from typing import Any

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import table, when

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _seconds(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    """Read a span of time such as ``90s``, ``12h`` or ``30d``."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,9})([smhd])", text, re.ASCII)
    if not match:
        raise click.BadParameter(f"{text!r} is not a number and one of s, m, h, d, such as 30d.")
    return int(match[1]) * _UNITS[match[2]]


@click.group("token")
def command() -> None:
    """Make, list and end tokens. For admins.

    \b
    Example:
      ai-model token create ci --role writer --models 'nlp/*' --expires-in 90d
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["reader", "writer", "admin"]),
    default="reader",
    show_default=True,
    help="Reader gets, writer also pushes, admin also makes tokens.",
)
@click.option(
    "--models",
    multiple=True,
    default=("*",),
    metavar="GLOB",
    help="Only models with such an id. Repeatable.  [default: *]",
)
@click.option(
    "--expires-in", callback=_seconds, metavar="TIME", help="Such as 12h or 30d.  [default: never]"
)
@options.common_options
@click.pass_obj
def create(
    invocation: Invocation, name: str, role: Any, models: tuple[str, ...], expires_in: int | None
) -> None:
    """Make a token for NAME; its secret is shown this once.

    \b
    Example:
      ai-model token create ci --role writer --models 'nlp/*' --expires-in 90d
    """
    with invocation.registry() as registry:
        token = registry.create_token(name, role=role, models=models, expires_in_s=expires_in)
    invocation.answer(token, [token.token])


@command.command("ls")
@options.common_options
@click.pass_obj
def list_tokens(invocation: Invocation) -> None:
    """List tokens, without their secrets. Times are UTC.

    \b
    Example:
      ai-model token ls
    """
    with invocation.registry() as registry:
        tokens = registry.tokens()
    rows = [
        (
            token.token_id,
            token.name,
            token.role,
            ", ".join(token.models),
            "revoked" if token.revoked_at else when(token.expires_at),
            when(token.last_used_at),
        )
        for token in tokens
    ]
    head = ("ID", "NAME", "ROLE", "MODELS", "EXPIRES", "LAST USED")
    invocation.answer({"tokens": tokens}, table(head, rows))


@command.command("revoke")
@click.argument("token_id")
@options.common_options
@click.pass_obj
def revoke(invocation: Invocation, token_id: str) -> None:
    """End the token TOKEN_ID, within seconds everywhere.

    \b
    Example:
      ai-model token revoke 0198c5f2-7d1e-7cc3-98c4-dc0c0c07398f
    """
    with invocation.registry() as registry:
        registry.revoke_token(token_id)
    document = {"token_id": token_id, "revoked": True}
    invocation.answer(document, [f"{token_id} is revoked."])
