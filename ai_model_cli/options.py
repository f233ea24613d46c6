"""Options that several commands share, each written once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ai_model_cli.invocation import Invocation

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _remember(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Keep an option in the invocation, so that it may stand before or behind the verb."""
    if value and param.name:
        setattr(ctx.ensure_object(Invocation), param.name, value)


_COMMON = (
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Answer with one JSON document on stdout, errors too.",
    ),
    click.option(
        "--endpoint",
        metavar="URL",
        expose_value=False,
        callback=_remember,
        help="Base URL of the registry, such as https://models.example.org.",
    ),
    click.option(
        "--token",
        metavar="SECRET",
        expose_value=False,
        callback=_remember,
        help="Token; others on this machine can see it here, so prefer AI_MODEL_TOKEN or login.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_remember,
        help="Config file to read instead of the usual one.",
    ),
)


def common_options(command: _Function) -> _Function:
    """Add the options that every command has."""
    for option in reversed(_COMMON):
        command = option(command)
    return command


def transfer(command: _Function) -> _Function:
    """Add ``--connections`` and ``--max-bandwidth``."""
    for option in reversed(_TRANSFER):
        command = option(command)
    return command


_TRANSFER = (
    click.option(
        "--connections",
        metavar="N",
        expose_value=False,
        callback=_remember,
        help="Transfers at once, 1 to 256.  [default: auto, as many as the network gives more for]",
    ),
    click.option(
        "--max-bandwidth",
        metavar="RATE",
        expose_value=False,
        callback=_remember,
        help="Limit over all connections, a second: 50MB, 512KiB or 400Mbit.  [default: none]",
    ),
)


def model_id(command: _Function) -> _Function:
    """Add ``--model-id``."""
    return click.option(
        "--model-id", required=True, metavar="MODEL", help="Model: name or namespace/name."
    )(command)


def new_version(command: _Function) -> _Function:
    """Add ``--version`` for a version's own name."""
    return click.option(
        "--version", required=True, metavar="VERSION", help="Name of the version, such as v2.3."
    )(command)


def ref(command: _Function) -> _Function:
    """Add ``--version`` for whatever names a version."""
    return click.option(
        "--version",
        "ref",
        default="latest",
        show_default=True,
        metavar="REF",
        help="Version, alias, latest, or sha256:<digest of the manifest>.",
    )(command)


def selection(command: _Function) -> _Function:
    """Add ``--layers``, ``--exclude``, ``--files`` and ``--weights-only``."""
    for option in reversed(_SELECTION):
        command = option(command)
    return command


_SELECTION = (
    click.option(
        "--layers",
        multiple=True,
        metavar="PATTERN",
        help="Only these tensors: a component of their dotted names (encoder), a run of them"
        " (encoder.layer.0), a glob (encoder.*.key), a range (encoder.layer.[0-2]), a declared"
        " group, or a comma list. Repeatable.",
    ),
    click.option(
        "--exclude", multiple=True, metavar="PATTERN", help="But not these tensors. Repeatable."
    ),
    click.option(
        "--files", multiple=True, metavar="GLOB", help="Only files with such a path. Repeatable."
    ),
    click.option("--weights-only", is_flag=True, help="Leave out files that hold no tensors."),
)
