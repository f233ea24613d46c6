"""``ai-model route``: which share of a model's requests each version gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ai_model_cli import options
from ai_model_cli.invocation import Invocation, note
from ai_model_cli.text import count, table, when

if TYPE_CHECKING:
    from ai_model.routing.api import TrafficApi
    from ai_model.routing.changes import RouteChange
    from ai_model.routing.effect import Effect
    from ai_model_format.wire import RouteInfo

EFFECT_S = 5.0


def _reason(command: click.decorators.FC) -> click.decorators.FC:
    return click.option("--reason", metavar="TEXT", help="Why, for the history.")(command)


def _force(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--force", is_flag=True, help="Even if no server has it loaded, or it gains over 50%."
    )(command)


@click.group("route", invoke_without_command=True)
@click.option("--model-id", metavar="MODEL", help="Model: name or namespace/name.")
@click.option(
    "--traffic",
    multiple=True,
    metavar="SHARE",
    help="Share of the requests, such as 5%; one for each --version.",
)
@click.option(
    "--version", "versions", multiple=True, metavar="REF", help="Version that gets the share."
)
@click.option(
    "--shadow", metavar="SHARE", help="Send it a copy of so many requests instead; 0 ends it."
)
@click.option("--dry-run", is_flag=True, help="Check and show, change nothing.")
@_force
@_reason
@options.common_options
@click.pass_context
def command(
    ctx: click.Context,
    model_id: str | None,
    traffic: tuple[str, ...],
    versions: tuple[str, ...],
    shadow: str | None,
    dry_run: bool,
    force: bool,
    reason: str | None,
) -> None:
    """Split a model's traffic between its versions.

    The other versions keep their proportions. Only servers that have a version
    loaded get its requests.

    \b
    Examples:
      ai-model route --model-id resnet50 --traffic 100% --version v2.3
      ai-model route --model-id resnet50 --traffic 5% --version v2.4
      ai-model route --model-id resnet50 --shadow 50% --version v2.5
      ai-model route promote --model-id resnet50 --version v2.4
      ai-model route rollback --model-id resnet50
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options(ctx)
        return
    if not model_id or not versions or (not traffic and shadow is None):
        raise click.UsageError("give --model-id, --version and --traffic (or --shadow)")
    if traffic and shadow is not None:
        raise click.UsageError("--traffic and --shadow are two changes: make one after the other")
    from ai_model.routing import changes  # lazy: --help needs none of it
    from ai_model.routing.api import TrafficApi

    invocation = ctx.find_object(Invocation)
    assert invocation is not None
    with invocation.registry() as registry:
        api = TrafficApi(registry.api)
        if shadow is not None:
            share = _shares([shadow], versions)[versions[0]]
            change = changes.shadow_route(
                api, model_id, versions[0], share, reason=reason, force=force, dry_run=dry_run
            )
        else:
            shares = _shares(traffic, versions)
            change = changes.change_route(
                api, model_id, shares, reason=reason, force=force, dry_run=dry_run
            )
        _answer(invocation, api, change)


@command.command("show")
@options.model_id
@options.common_options
@click.pass_obj
def show(invocation: Invocation, model_id: str) -> None:
    """Show the split that holds now.

    \b
    Example:
      ai-model route show --model-id resnet50
    """
    from ai_model.routing.api import TrafficApi  # lazy: --help needs none of it

    with invocation.registry() as registry:
        route = TrafficApi(registry.api).route(model_id)
    invocation.answer(route, _route_lines(route))


@command.command("promote")
@options.model_id
@options.new_version
@click.option("--dry-run", is_flag=True, help="Check and show, change nothing.")
@_force
@_reason
@options.common_options
@click.pass_obj
def promote(
    invocation: Invocation,
    model_id: str,
    version: str,
    dry_run: bool,
    force: bool,
    reason: str | None,
) -> None:
    """Give a version all traffic.

    \b
    Example:
      ai-model route promote --model-id resnet50 --version v2.4
    """
    from ai_model.routing import changes  # lazy: --help needs none of it
    from ai_model.routing.api import TrafficApi

    with invocation.registry() as registry:
        api = TrafficApi(registry.api)
        change = changes.promote(
            api, model_id, version, reason=reason, force=force, dry_run=dry_run
        )
        _answer(invocation, api, change)


@command.command("rollback")
@options.model_id
@click.option(
    "--to-revision", type=click.IntRange(1), help="Go back to this one, not to the one before."
)
@_force
@_reason
@options.common_options
@click.pass_obj
def rollback(
    invocation: Invocation,
    model_id: str,
    to_revision: int | None,
    force: bool,
    reason: str | None,
) -> None:
    """Go back to the split before, at once. Twice returns to where you were.

    \b
    Example:
      ai-model route rollback --model-id resnet50
    """
    from ai_model.routing import changes  # lazy: --help needs none of it
    from ai_model.routing.api import TrafficApi

    with invocation.registry() as registry:
        api = TrafficApi(registry.api)
        change = changes.roll_back(
            api, model_id, to_revision=to_revision, reason=reason, force=force
        )
        _answer(invocation, api, change)


@command.command("history")
@options.model_id
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@options.common_options
@click.pass_obj
def history(invocation: Invocation, model_id: str, limit: int) -> None:
    """List past splits, newest first.

    \b
    Example:
      ai-model route history --model-id resnet50
    """
    from ai_model.routing.api import TrafficApi  # lazy: --help needs none of it

    with invocation.registry() as registry:
        revisions = TrafficApi(registry.api).route_history(model_id, limit=limit)
    rows = [
        (str(r.revision), when(r.created_at), r.created_by or "", r.kind or "", _split(r),
         r.reason or "")
        for r in revisions
    ]  # fmt: skip
    head = (">REVISION", "AT", "BY", "KIND", "SPLIT", "REASON")
    invocation.answer({"revisions": revisions}, table(head, rows))


@command.command("export")
@options.model_id
@click.option(
    "--format",
    "target",
    required=True,
    type=click.Choice(["nginx", "haproxy", "traefik", "gateway-api", "istio"]),
)
@click.option("--user-header", default="x-user-id", show_default=True)
@options.common_options
@click.pass_obj
def export(invocation: Invocation, model_id: str, target: str, user_header: str) -> None:
    """Write the split of this moment for another gateway.

    \b
    Examples:
      ai-model route export --model-id resnet50 --format nginx >models.conf
    """
    from ai_model.errors import UsageError  # lazy: --help needs none of it
    from ai_model.routing.api import TrafficApi
    from ai_model.routing.export import export_route

    with invocation.registry() as registry:
        api = TrafficApi(registry.api)
        route, endpoints = api.route(model_id), api.endpoints(model_id)
    if not route.shares:
        raise UsageError(f"Model {model_id} has no route yet.")
    try:
        written = export_route(route, endpoints, target=target, user_header=user_header)
    except ValueError as error:
        raise UsageError(f"{error}.") from error
    invocation.answer(
        {"format": target, "revision": route.revision, "text": written}, written.splitlines()
    )


def _refuse_options(ctx: click.Context) -> None:
    """Let no option stand before a subcommand: it would not hold there.

    Raises:
        UsageError: one does.
    """
    for param in ctx.command.params:
        given = param.expose_value and ctx.get_parameter_source(param.name or "")
        if given is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{param.opts[0]} belongs behind {ctx.invoked_subcommand}, not before it"
            )


def _shares(traffic: Sequence[str], versions: Sequence[str]) -> dict[str, int]:
    """Pair shares with versions.

    Raises:
        UsageError: they are not pairs, or a share cannot be read.
    """
    from ai_model_format.traffic import InvalidShare, parse_share

    if len(traffic) != len(versions):
        raise click.UsageError("each --version needs one --traffic, in the same order")
    if len(set(versions)) != len(versions):
        raise click.UsageError("a version is named twice")
    try:
        return dict(zip(versions, map(parse_share, traffic), strict=True))
    except InvalidShare as error:
        raise click.UsageError(str(error)) from error


def _effect(api: TrafficApi, route: RouteInfo) -> Effect | None:
    """Wait until gateways follow; a change that is done stays done where they cannot be seen."""
    from ai_model.errors import AiModelError  # lazy: --help needs none of it
    from ai_model.routing.effect import wait_for_effect

    try:
        return wait_for_effect(api, route, timeout_s=EFFECT_S)
    except AiModelError as error:
        note(f"Revision {route.revision} is set; whether gateways follow is not known: {error}")
        return None


def _answer(invocation: Invocation, api: TrafficApi, change: RouteChange) -> None:
    document = change.to_json()
    lines = [f"before  {_split(change.before)}", f"after   {_split(change.after)}"]
    lines += [
        f"        {share.version} is loaded by {count(share.live_endpoints, 'live node')}"
        for share in change.after.shares
    ]
    if shadow := change.after.shadow:
        lines.append(f"        a copy of {_percent(shadow.basis_points)} goes to {shadow.version}")
    if not change.done:
        lines.append("Nothing was changed.")
    elif effect := _effect(api, change.after):
        document["effect"] = effect.to_json()
        lines.append(
            f"Revision {change.after.revision} holds at {effect.applied} of"
            f" {count(effect.gateways, 'gateway')}."
        )
    invocation.answer(document, lines)


def _route_lines(route: RouteInfo) -> Iterator[str]:
    if not route.shares:
        yield f"{route.model_id} has no route yet."
        return
    rows = [
        (share.version, _percent(share.basis_points), str(share.live_endpoints),
         share.manifest_digest)
        for share in sorted(route.shares, key=lambda share: -share.basis_points)
    ]  # fmt: skip
    if shadow := route.shadow:
        percent = f"{_percent(shadow.basis_points)} (shadow)"
        rows.append((shadow.version, percent, str(shadow.live_endpoints), shadow.manifest_digest))
    yield from table(("VERSION", ">TRAFFIC", ">NODES", "DIGEST"), rows)
    yield f"Revision {route.revision}, by {route.created_by} at {when(route.created_at)}."


def _split(route: RouteInfo) -> str:
    from ai_model_format.traffic import format_split

    split = {share.version: share.basis_points for share in route.shares}
    return format_split(split) or "no route"


def _percent(share: int) -> str:
    from ai_model_format.traffic import format_share

    return format_share(share)
