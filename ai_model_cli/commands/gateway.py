"""``ai-model gateway``: run Envoy, steered by the registry."""

from __future__ import annotations

import signal
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation

if TYPE_CHECKING:
    from ai_model import Registry
    from ai_model.gateway.run import Gateway


@click.command("gateway")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8090, show_default=True, type=click.IntRange(1, 65_535))
@click.option(
    "--gateway-id",
    metavar="NAME",
    help="Name of this gateway, unique in the registry; host name and port where not given.",
)
@click.option(
    "--registry",
    "more_endpoints",
    multiple=True,
    metavar="URL",
    help="Another address of the registry, to go on with when one is away. Repeatable.",
)
@click.option(
    "--user-header",
    default="x-user-id",
    show_default=True,
    help="Header that keeps a user on one version.",
)
@options.common_options
@click.pass_obj
def command(
    invocation: Invocation,
    host: str,
    port: int,
    gateway_id: str | None,
    more_endpoints: tuple[str, ...],
    user_header: str,
) -> None:
    """Run an API gateway (Envoy) that follows the registry's routes.

    Requests name their model in the path, /m/MODEL/..., or in the header
    x-ai-model; a version is pinned by /m/MODEL@VERSION/... or by the header
    x-ai-model-version. The answer says in x-ai-model-version who answered.

    \b
    Examples:
      ai-model gateway --port 8090
      curl http://127.0.0.1:8090/m/resnet50/v1/predict -d @image.json
    """
    with invocation.registry() as registry:
        gateway = _gateway(
            registry,
            host=host,
            port=port,
            gateway_id=gateway_id,
            more_endpoints=more_endpoints,
            user_header=user_header,
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: gateway.stop())
        gateway.run(lambda url: _say_ready(invocation, gateway.options.gateway_id, url))


def _gateway(
    registry: Registry,
    *,
    host: str,
    port: int,
    gateway_id: str | None,
    more_endpoints: tuple[str, ...],
    user_header: str,
) -> Gateway:
    from ai_model.api import Api  # lazy: --help needs none of it
    from ai_model.gateway.bootstrap import GatewayOptions
    from ai_model.gateway.run import Gateway
    from ai_model.routing.api import TrafficApi

    chosen = GatewayOptions(
        gateway_id=gateway_id or f"{socket.gethostname()}-{port}",
        endpoints=(registry.config.endpoint, *more_endpoints),
        token=registry.config.token,
        host=host,
        port=port,
        user_header=user_header.lower(),
    )
    others = [Api(replace(registry.config, endpoint=endpoint)) for endpoint in more_endpoints]
    return Gateway(chosen, [TrafficApi(api) for api in (registry.api, *others)])


def _say_ready(invocation: Invocation, gateway_id: str, url: str) -> None:
    invocation.answer(
        {"gateway_id": gateway_id, "url": url}, [f"Gateway {gateway_id} answers at {url}"]
    )
