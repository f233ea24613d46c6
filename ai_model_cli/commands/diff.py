"""``ai-model diff``: which files and tensors differ between two versions."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import count, human_size

if TYPE_CHECKING:
    from ai_model_cli.compare import Comparison


@click.command()
@options.model_id
@click.option("--version", required=True, metavar="REF", help="Version to start from.")
@click.option("--to", required=True, metavar="REF", help="Version to compare it with.")
@click.option("--to-model-id", metavar="MODEL", help="Model of the latter.  [default: the same]")
@options.common_options
@click.pass_obj
def command(
    invocation: Invocation, model_id: str, version: str, to: str, to_model_id: str | None
) -> None:
    """Show which files and tensors differ between two versions.

    Only manifests are fetched. Sizes are printed in powers of 1000; --json has
    bytes.

    \b
    Examples:
      ai-model diff --model-id minilm --version v1 --to v2
      ai-model diff --model-id base --version v1 --to v3 --to-model-id fine-tune
    """
    from ai_model_cli.compare import compare  # lazy: --help needs none of it

    with invocation.registry() as registry:
        older = registry.open(model_id, version)
        newer = registry.open(to_model_id or model_id, to)
        found = compare(older.manifest, newer.manifest)
    document = {
        "from": {"model_id": older.model_id, "version": older.name},
        "to": {"model_id": newer.model_id, "version": newer.name},
        **dataclasses.asdict(found),
    }
    invocation.answer(document, _lines(found))


def _lines(found: "Comparison") -> Iterator[str]:
    for file in found.files:
        yield f"{file.status:8} {file.path}  {human_size(file.size)}"
        for tensor in found.tensors:
            if tensor.file == file.path and file.status == "changed":
                yield f"  {tensor.status:8} {tensor.name}  {human_size(tensor.size)}"
    yield (
        f"{count(len(found.files), 'file')} and {count(len(found.tensors), 'tensor')} differ;"
        f" {human_size(found.bytes_new)} are new."
    )
