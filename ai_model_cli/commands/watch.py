"""``ai-model watch``: the sidecar of an inference server."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from urllib.parse import urlsplit

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation, note


@click.command("watch")
@options.model_id
@click.option("--alias", metavar="ALIAS", help="Follow this alias; else every version routed to.")
@click.option(
    "--dir",
    "directory",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Each version gets a directory below it. Several watchers may share it.",
)
@click.option("--layers", multiple=True, metavar="PATTERN", help="Only these layers. Repeatable.")
@click.option(
    "--on-load",
    metavar="CMD|URL",
    help="Run with load|unload and the version's directory, or POST JSON that says so.",
)
@click.option(
    "--ready",
    metavar="URL",
    help="Wait until it answers 200; {version}, {digest}, {path} are filled in.",
)
@click.option("--address", metavar="HOST:PORT", help="Where gateways reach the server.")
@click.option("--ttl", "ttl_s", default=15, show_default=True, type=click.IntRange(2, 3600))
@click.option(
    "--drain",
    "drain_s",
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Between leaving the gateways and being unloaded.",
)
@options.common_options
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - as many as there are options
    invocation: Invocation,
    model_id: str,
    alias: str | None,
    directory: Path,
    layers: tuple[str, ...],
    on_load: str | None,
    ready: str | None,
    address: str | None,
    ttl_s: int,
    drain_s: float,
) -> None:
    """Keep an inference server at the version an alias or the route names.

    A new version is fetched beside the old one, verified, loaded, and only then
    told to gateways; an old one leaves the gateways first.

    \b
    Examples:
      ai-model watch --model-id resnet50 --alias production --dir /models \\
        --on-load ./load.sh --ready http://127.0.0.1:8000/health --address 10.0.0.5:8000
    """
    from ai_model.routing.watch import Watcher, WatchOptions  # lazy: --help needs none of it

    chosen = WatchOptions(
        model_id=model_id,
        alias=alias,
        directory=directory.resolve(),
        layers=layers,
        on_load=on_load,
        ready=checked_url(ready) if ready else None,
        address=resolve_address(address) if address else None,
        ttl_s=ttl_s,
        drain_s=drain_s,
    )
    with invocation.registry() as registry:
        watcher = Watcher(registry, chosen, on_event=note)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: watcher.stop())
        watcher.run()


def checked_url(text: str) -> str:
    """Return a URL that can be asked.

    Raises:
        BadParameter: it is none of http or https; the server would never seem ready.
    """
    url = urlsplit(text)
    if url.scheme not in {"http", "https"} or not url.netloc:
        raise click.BadParameter(
            f"{text!r} is not a URL such as http://127.0.0.1:8000/ready", param_hint="--ready"
        )
    return text


def resolve_address(text: str) -> str:
    """Return ``HOST:PORT`` with the host's IP address, as gateways need it.

    Raises:
        BadParameter: it is no such pair, or the host has no address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise click.BadParameter(f"{text!r} is not HOST:PORT")
    try:
        family, *_, target = socket.getaddrinfo(host.strip("[]"), int(port))[0]
    except OSError as error:
        raise click.BadParameter(f"{host} has no address: {error}") from error
    return f"[{target[0]}]:{port}" if family == socket.AF_INET6 else f"{target[0]}:{port}"
