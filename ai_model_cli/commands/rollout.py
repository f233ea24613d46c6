"""``ai-model rollout``: more traffic step by step, run by the registry itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation

if TYPE_CHECKING:
    from ai_model_format.wire import RolloutInfo

_DURATION = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*(s|m|h|d)?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LONGEST_S = 30 * 86_400
MOST_STEPS = 100


def parse_duration(text: str) -> float:
    """Read a duration such as ``90``, ``90s``, ``10m`` or ``1h`` in seconds.

    Raises:
        BadParameter: it is none, or out of range.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 30s, 10m or 1h")
    seconds = float(found[1]) * _SECONDS[found[2] or "s"]
    if not 0 < seconds <= LONGEST_S:
        raise click.BadParameter(f"{text!r} is not more than 0 and at most 30 days")
    return seconds


def parse_steps(text: str) -> list[int]:
    """Read steps such as ``5%,25%,50%,100%`` in basis points.

    Raises:
        BadParameter: one cannot be read, or is nothing.
    """
    steps = [parse_rate(part) for part in text.split(",")]
    if 0 in steps:
        raise click.BadParameter("a step is more than 0%")
    if len(steps) > MOST_STEPS:
        raise click.BadParameter(f"at most {MOST_STEPS} steps")
    return steps


def parse_rate(text: str) -> int:
    """Read one percentage in basis points.

    Raises:
        BadParameter: it is none.
    """
    from ai_model_format.traffic import InvalidShare, parse_share

    try:
        return parse_share(text)
    except InvalidShare as error:
        raise click.BadParameter(str(error)) from error


@click.group("rollout")
def command() -> None:
    """Give a version more traffic step by step, as long as its figures are good.

    The registry runs it: it goes on when this command has ended. It waits
    where there is too little traffic to tell, and goes back by itself when
    requests fail or become slow.

    \b
    Examples:
      ai-model rollout start --model-id resnet50 --version v2.4 --steps 5%,25%,50%,100% \\
        --interval 10m --max-error-rate 1% --max-p99-ms 300
      ai-model rollout status --model-id resnet50
    """


@command.command("start")
@options.model_id
@options.new_version
@click.option("--steps", default="5%,25%,50%,100%", show_default=True, metavar="SHARES")
@click.option("--interval", default="10m", show_default=True, help="How long a step is watched.")
@click.option(
    "--max-error-rate", default="1%", show_default=True, help="Go back when more requests fail."
)
@click.option(
    "--max-p99-ms", type=click.FloatRange(min=0, min_open=True), help="Go back when it is slower."
)
@click.option(
    "--min-requests",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="With fewer in a step it waits.",
)
@click.option("--reason", metavar="TEXT", help="Why, for the history.")
@options.common_options
@click.pass_obj
def start(  # noqa: PLR0913, PLR0917 - as many as there are options
    invocation: Invocation,
    model_id: str,
    version: str,
    steps: str,
    interval: str,
    max_error_rate: str,
    max_p99_ms: float | None,
    min_requests: int,
    reason: str | None,
) -> None:
    """Take the first step at once; the registry takes the others.

    \b
    Examples:
      ai-model rollout start --model-id resnet50 --version v2.4 --interval 10m
    """
    from ai_model.routing.api import TrafficApi  # lazy: --help needs none of it
    from ai_model_format.traffic import WHOLE
    from ai_model_format.wire import RolloutRequest

    request = RolloutRequest(
        version=version,
        steps=parse_steps(steps),
        interval_s=parse_duration(interval),
        max_error_rate=parse_rate(max_error_rate) / WHOLE,
        max_p99_ms=max_p99_ms,
        min_requests=min_requests,
        reason=reason,
    )
    with invocation.registry() as registry:
        rollout = TrafficApi(registry.api).start_rollout(model_id, request)
    invocation.answer(rollout, _lines(rollout))


@command.command("status")
@options.model_id
@options.common_options
@click.pass_obj
def status(invocation: Invocation, model_id: str) -> None:
    """Show how far it is, and why it waits or has ended.

    \b
    Examples:
      ai-model rollout status --model-id resnet50
    """
    from ai_model.routing.api import TrafficApi  # lazy: --help needs none of it

    with invocation.registry() as registry:
        rollout = TrafficApi(registry.api).rollout(model_id)
    invocation.answer(rollout, _lines(rollout))


def _action(name: str, sentence: str) -> None:
    """Add a command that tells a rollout what to do."""
    example = f"ai-model rollout {name} --model-id resnet50"

    @command.command(name, help=f"{sentence}\n\n\b\nExamples:\n  {example}")
    @options.model_id
    @click.option("--reason", metavar="TEXT", help="Why, for the history.")
    @options.common_options
    @click.pass_obj
    def act(invocation: Invocation, model_id: str, reason: str | None) -> None:
        from ai_model.routing.api import TrafficApi  # lazy: --help needs none of it
        from ai_model_format.wire import RolloutAction

        request = RolloutAction.model_validate({"action": name, "reason": reason})
        with invocation.registry() as registry:
            rollout = TrafficApi(registry.api).act_on_rollout(model_id, request)
        invocation.answer(rollout, _lines(rollout))


_action("pause", "Stay at the present step.")
_action("resume", "Go on, watching the present step anew.")
_action("abort", "Go back to the split before the rollout.")
_action("promote", "Give the version all traffic now.")


def _lines(rollout: RolloutInfo) -> Iterator[str]:
    from ai_model_format.traffic import format_share

    steps = " ".join(
        f"[{format_share(share)}]" if number == rollout.step else format_share(share)
        for number, share in enumerate(rollout.steps)
    )
    yield f"{rollout.model_id} {rollout.version}: {rollout.state}, steps {steps}"
    figures = rollout.figures
    if figures.requests:
        rate = f"{figures.error_rate:.2%}" if figures.error_rate is not None else "-"
        p99 = f", 99th percentile {figures.p99_ms:g} ms" if figures.p99_ms is not None else ""
        yield f"this step: {figures.requests} requests, {rate} failed{p99}"
    if rollout.waiting:
        yield f"waiting: {rollout.waiting}"
    if rollout.why:
        yield f"why: {rollout.why}"
