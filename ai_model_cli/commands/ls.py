"""``ai-model ls``: models, or the versions of one."""

from itertools import islice
from typing import TYPE_CHECKING

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import human_size, table, when

if TYPE_CHECKING:
    from ai_model import Registry


@click.command()
@click.option("--model-id", metavar="MODEL", help="List the versions of this model, newest first.")
@click.option("--prefix", default="", metavar="TEXT", help="List models whose id starts so.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@options.common_options
@click.pass_obj
def command(invocation: Invocation, model_id: str | None, prefix: str, limit: int | None) -> None:
    """List models, or the versions of one model.

    Sizes are printed in powers of 1000; --json has bytes. Times are UTC.

    \b
    Examples:
      ai-model ls --prefix nlp/
      ai-model ls --model-id minilm --limit 10
    """
    with invocation.registry() as registry:
        if model_id is None:
            _list_models(invocation, registry, prefix, limit)
        else:
            _list_versions(invocation, registry, model_id, limit)


def _list_models(
    invocation: Invocation, registry: "Registry", prefix: str, limit: int | None
) -> None:
    models = list(islice(registry.models(prefix=prefix), limit))
    rows = [
        (model.model_id, str(model.version_count), model.latest or "-", when(model.created_at))
        for model in models
    ]
    lines = table(("MODEL", ">VERSIONS", "LATEST", "CREATED"), rows)
    invocation.answer({"models": models}, lines)


def _list_versions(
    invocation: Invocation, registry: "Registry", model_id: str, limit: int | None
) -> None:
    versions = list(islice(registry.versions(model_id), limit))
    rows = [
        (
            version.version + (" (yanked)" if version.yanked_at else ""),
            human_size(version.size),
            when(version.created_at),
            version.created_by,
            ", ".join(version.aliases),
        )
        for version in versions
    ]
    lines = table(("VERSION", ">SIZE", "CREATED", "BY", "ALIASES"), rows)
    invocation.answer({"versions": versions}, lines)
