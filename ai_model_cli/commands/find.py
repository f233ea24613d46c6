"""``ai-model find``: versions by what they were made from, or by a file they hold."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai_model_cli import metadata, options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import dataset_name, table, when

if TYPE_CHECKING:
    from ai_model_format.wire import VersionSummary

_HEAD = ("MODEL", "VERSION", "CREATED", "BY", "DATASET", "COMMIT", "ALIASES")
COMMIT_SHOWN = 12


@click.command()
@click.option("--dataset", metavar="ID[@VERSION]", help="Made from this data.")
@click.option(
    "--commit", "--git-commit", "git_commit", metavar="HEX", help="Made by code of this commit."
)
@click.option(
    "--param",
    multiple=True,
    metavar="KEY=VALUE",
    help="With this parameter; a.b=VALUE for a nested one. The value is JSON if it reads so,"
    " else text. Repeatable.",
)
@click.option("--tag", multiple=True, metavar="KEY=TEXT", help="With this tag. Repeatable.")
@click.option("--sha256", metavar="DIGEST", help="Holding a file of this digest, or named by it.")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Holding the bytes of this file here.",
)
@click.option("--created-by", metavar="NAME", help="Pushed by this token.")
@click.option("--prefix", metavar="TEXT", help="Of models whose id starts so.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, metavar="N",
    help="At most so many.",
)  # fmt: skip
@options.common_options
@click.pass_obj
def command(invocation: Invocation, /, limit: int, **given: Any) -> None:
    """Find versions of which all this is true, newest first.

    Of all models that you may read. A commit may be given by its first digits.
    Times are UTC.

    \b
    Examples:
      ai-model find --dataset snli@1.0 --param lr=3e-5
      ai-model find --commit 3f2a9c1 --prefix nlp/
      ai-model find --file model.safetensors
    """
    facts = _facts(given)
    with invocation.registry() as registry:
        versions = list(islice(registry.find(**facts), limit))
    invocation.answer({"versions": versions}, table(_HEAD, [_row(v) for v in versions]))


def _facts(given: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked for as ``Registry.find`` takes it.

    Raises:
        click.UsageError: an option cannot be read.
    """
    if given["sha256"] and given["file"]:
        raise click.UsageError("--sha256 and --file both name a file; give one of them.")
    dataset = metadata.parse_dataset(given["dataset"]) if given["dataset"] else {}
    facts = {
        "dataset_id": dataset.get("id"),
        "dataset_version": dataset.get("version"),
        "git_commit": given["git_commit"],
        "parameters": metadata.json_pairs(given["param"], "--param"),
        "tags": metadata.pairs(given["tag"], "--tag"),
        "sha256": _digest(given["file"]) if given["file"] else given["sha256"],
        "created_by": given["created_by"],
        "prefix": given["prefix"],
    }
    return {name: value for name, value in facts.items() if value is not None}


def _digest(path: Path) -> str:
    import hashlib  # lazy: only this needs it

    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _row(version: "VersionSummary") -> tuple[str, ...]:
    return (
        version.model_id,
        version.version + (" (yanked)" if version.yanked_at else ""),
        when(version.created_at),
        version.created_by,
        dataset_name(version.dataset) or "-",
        (version.git_commit or "-")[:COMMIT_SHOWN],
        ", ".join(version.aliases),
    )
