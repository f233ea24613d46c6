"""The reviewed text of every ``--help``. Run as a module (``make snapshots``) to write it anew."""

from collections.abc import Iterator
from pathlib import Path

import click

from ai_model_cli.main import cli

FOLDER = Path(__file__).parent / "snapshots"


def helps() -> dict[str, str]:
    """Return the help of every command by the name of its snapshot, such as ``alias-set.txt``."""
    return {f"{'-'.join(path)}.txt": text for path, text in _walk(cli, ("ai-model",), None)}


def _walk(
    command: click.Command, path: tuple[str, ...], parent: click.Context | None
) -> Iterator[tuple[tuple[str, ...], str]]:
    ctx = click.Context(command, info_name=path[-1], parent=parent, terminal_width=80)
    yield path, command.get_help(ctx) + "\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from _walk(child, (*path, name), ctx)


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    current = helps()
    for old in FOLDER.glob("*.txt"):
        if old.name not in current:
            old.unlink()
    for name, text in current.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    write()
