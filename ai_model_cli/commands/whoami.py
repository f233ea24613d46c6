"""``ai-model whoami``: whose token this is and what it may do."""

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation


@click.command()
@options.common_options
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Show which registry this is, whose token, and what it may do.

    \b
    Example:
      ai-model whoami
    """
    with invocation.registry() as registry:
        identity = registry.whoami()
        endpoint = registry.config.endpoint
    document = {"endpoint": endpoint, **identity.model_dump(mode="json")}
    globs = ", ".join(identity.models)
    models = "all models" if "*" in identity.models else f"models {globs}"
    line = f"{identity.name} ({identity.role} of {models}) at {endpoint}"
    invocation.answer(document, [line])
