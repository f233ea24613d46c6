"""``ai-model serve``: a whole registry on this machine.

The one place that imports the service, and only when it is to run.
"""

from pathlib import Path

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=Path("~/.local/share/ai-model"),
    show_default=True,
    metavar="DIR",
    help="Where everything is kept: database, objects, client.toml.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--public-url", metavar="URL", help="Where clients reach it, if elsewhere.")
@click.option("--anonymous-read", is_flag=True, help="Let anybody read without a token.")
@options.common_options
@click.pass_obj
def command(
    invocation: Invocation,
    data_dir: Path,
    host: str,
    port: int,
    public_url: str | None,
    anonymous_read: bool,
) -> None:
    """Run a whole registry on this machine.

    A real Postgres, objects in a folder, the API and its worker, all below DIR.
    Prints one line when it is ready, and keeps the endpoint and an admin's token
    in DIR/client.toml. Ends on Ctrl-C or TERM. Needs the extra: pip install
    'ai-model[server]'.

    \b
    Example:
      ai-model serve --data-dir ./registry --port 8080
      export AI_MODEL_CONFIG=./registry/client.toml    # in another terminal
    """
    from ai_model.errors import AiModelError, NotSupported  # lazy, as the service below

    try:
        from registry_api.embedded import CannotServe, serve
    except ModuleNotFoundError as error:
        raise NotSupported(
            f"This installation has no {error.name}, which the server needs.",
            way_out="Run `pip install 'ai-model[server]'`.",
        ) from error
    try:
        serve(
            data_dir,
            host=host,
            port=port,
            json_output=invocation.as_json,
            anonymous_read=anonymous_read,
            public_url=public_url,
        )
    except CannotServe as error:
        raise AiModelError(f"The registry did not start: {error}.") from error
