"""``ai-model nodes``: which inference servers live, and what they have loaded."""

from datetime import UTC, datetime

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import table, when

_HEAD = ("ADDRESS", "STATE", "VERSION", "DIGEST", "SINCE", ">LAST BEAT")


@click.command("nodes")
@options.model_id
@options.common_options
@click.pass_obj
def command(invocation: Invocation, model_id: str) -> None:
    """List inference servers and the versions they have loaded.

    A server whose digest is not the registry's gets no traffic; it is marked
    with "!".

    \b
    Examples:
      ai-model nodes --model-id resnet50
    """
    from ai_model.routing.api import TrafficApi  # lazy: --help needs none of it

    with invocation.registry() as registry:
        endpoints = TrafficApi(registry.api).endpoints(model_id)
    now = datetime.now(UTC)
    rows = []
    for endpoint in endpoints:
        beat = f"{max((now - endpoint.last_beat_at).total_seconds(), 0):.0f} s ago"
        for loaded in endpoint.versions:
            digest = loaded.digest[:19] + ("" if loaded.matches else " !")
            seen = when(loaded.since)
            row = (endpoint.address, endpoint.state, loaded.version, digest, seen, beat)
            rows.append(row)
        if not endpoint.versions:
            rows.append((endpoint.address, endpoint.state, "-", "-", "-", beat))
    invocation.answer({"endpoints": endpoints}, table(_HEAD, rows))
