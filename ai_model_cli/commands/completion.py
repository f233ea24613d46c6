"""``ai-model completion``: a script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class

from ai_model_cli import options
from ai_model_cli.invocation import Invocation


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
@options.common_options
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes ai-model in SHELL: bash, zsh or fish.

    \b
    Examples:
      eval "$(ai-model completion bash)"
      ai-model completion fish > ~/.config/fish/completions/ai-model.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"This version of click cannot complete {shell}.")
    script = found(ctx.find_root().command, {}, "ai-model", "_AI_MODEL_COMPLETE").source()
    invocation = ctx.find_object(Invocation) or Invocation()
    if invocation.as_json:
        invocation.answer({"shell": shell, "script": script}, [])
    else:
        click.echo(script)
