"""``ai-model yank``: mark a version as not to be used."""

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation


@click.command()
@options.model_id
@options.new_version
@click.option("--reason", metavar="TEXT", help="Why; shown to whoever uses the version.")
@click.option("--undo", is_flag=True, help="Take the yank back.")
@options.common_options
@click.pass_obj
def command(
    invocation: Invocation, model_id: str, version: str, reason: str | None, undo: bool
) -> None:
    """Mark a version as not to be used: latest skips it, its name still works.

    \b
    Examples:
      ai-model yank --model-id minilm --version v2.3 --reason "trained on leaked labels"
      ai-model yank --model-id minilm --version v2.3 --undo
    """
    if undo == bool(reason):
        raise click.UsageError("Say either --reason TEXT or --undo.")
    with invocation.registry() as registry:
        if reason:
            info = registry.yank(model_id, version, reason=reason)
        else:
            info = registry.unyank(model_id, version)
    state = "yanked" if info.yanked_at else "in use again"
    invocation.answer(info, [f"{info.model_id} {info.version} is {state}."])
