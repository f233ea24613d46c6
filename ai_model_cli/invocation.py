"""What one run of the command was told, and how it answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai_model_cli.text import printable

if TYPE_CHECKING:
    from ai_model import Registry


@dataclass
class Invocation:
    """Options that every command has.

    Attributes:
        as_json: answer with one JSON document.
        endpoint: base URL of the registry; ``None`` for what the settings say.
        token: secret, likewise.
        config: config file, likewise.
        connections: transfers at once, or ``auto``; likewise.
        max_bandwidth: bytes a second as text, likewise.
    """

    as_json: bool = False
    endpoint: str | None = None
    token: str | None = None
    config: Path | None = None
    connections: str | None = None
    max_bandwidth: str | None = None

    @contextmanager
    def registry(self) -> Iterator[Registry]:
        """Open the registry that the settings name."""
        from ai_model import Registry  # lazy: --help needs none of it

        registry = Registry(
            self.endpoint,
            self.token,
            config_file=self.config,
            connections=self.connections,
            max_bandwidth=self.max_bandwidth,
            on_note=note,
        )
        with registry:
            yield registry

    def answer(self, document: Any, lines: Iterable[str]) -> None:
        """Print the answer on stdout: the document with ``--json``, else the lines."""
        if self.as_json:
            click.echo(json.dumps(to_json(document), indent=2))
            return
        for line in lines:
            click.echo(printable(line))


def note(sentence: str) -> None:
    """Print a sentence on stderr, where it does not mix with the answer. Goes over a bar."""
    wipe = "\r\x1b[K" if sys.stderr.isatty() else ""
    click.echo(f"{wipe}{printable(sentence)}", err=True)


def to_json(value: Any) -> Any:
    """Return a value of the client as plain JSON. Pure."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: to_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(member) for member in value]
    return value
