"""``ai-model alias``: movable names for versions."""

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import table, when


@click.group("alias")
def command() -> None:
    """Set, remove and list aliases, the movable names for versions.

    \b
    Examples:
      ai-model alias set production --model-id minilm --version v2.3
      ai-model alias ls --model-id minilm
    """


@command.command("set")
@click.argument("alias")
@options.model_id
@click.option("--version", required=True, metavar="REF", help="Version to point at.")
@click.option("--expect", metavar="VERSION", help="Move it only if it points at this one now.")
@click.option("--create-only", is_flag=True, help="Fail if the alias points elsewhere.")
@options.common_options
@click.pass_obj
def set_alias(
    invocation: Invocation,
    alias: str,
    model_id: str,
    version: str,
    expect: str | None,
    create_only: bool,
) -> None:
    """Point ALIAS at a version.

    \b
    Examples:
      ai-model alias set production --model-id minilm --version v2.3
      ai-model alias set production --model-id minilm --version v2.4 --expect v2.3
    """
    with invocation.registry() as registry:
        info = registry.set_alias(
            model_id, alias, version, expect_version=expect, create_only=create_only
        )
    invocation.answer(info, [f"{info.alias} of {info.model_id} is {info.version}."])


@command.command("rm")
@click.argument("alias")
@options.model_id
@options.common_options
@click.pass_obj
def remove_alias(invocation: Invocation, alias: str, model_id: str) -> None:
    """Remove ALIAS; the version stays.

    \b
    Example:
      ai-model alias rm production --model-id minilm
    """
    with invocation.registry() as registry:
        registry.remove_alias(model_id, alias)
    document = {"model_id": model_id, "alias": alias, "removed": True}
    invocation.answer(document, [f"{alias} of {model_id} is removed."])


@command.command("ls")
@options.model_id
@options.common_options
@click.pass_obj
def list_aliases(invocation: Invocation, model_id: str) -> None:
    """List the aliases of a model. Times are UTC.

    \b
    Example:
      ai-model alias ls --model-id minilm
    """
    with invocation.registry() as registry:
        aliases = registry.aliases(model_id)
    rows = [(a.alias, a.version, when(a.updated_at), a.updated_by) for a in aliases]
    invocation.answer({"aliases": aliases}, table(("ALIAS", "VERSION", "SET", "BY"), rows))
