"""``ai-model get``: bring a version, or some of its layers, to this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation, note
from ai_model_cli.progress import Bars
from ai_model_cli.text import count, human_size, share

if TYPE_CHECKING:
    from ai_model import GetResult


@click.command()
@options.model_id
@options.ref
@options.selection
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory to write to.  [default: ./<model>-<version>]",
)
@click.option(
    "--reuse",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Copy from this directory of an earlier get too, such as one on a share. Repeatable.",
)
@options.transfer
@options.common_options
@click.pass_obj
def command(
    invocation: Invocation, /, model_id: str, ref: str, output: Path | None, **selected: Any
) -> None:
    """Get a version, or just the layers you need, every byte verified.

    Only bytes that this machine lacks are fetched. A part of a weight file is a
    valid file of the same format. Files without tensors come along, unless
    --weights-only. Kill it at any moment and run it again: it goes on where it
    stopped. Sizes are printed in powers of 1000; --json has bytes.

    \b
    Examples:
      ai-model get --model-id minilm --version v1
      ai-model get --model-id minilm --version production --layers encoder
      ai-model get --model-id minilm --layers 'encoder.layer.[0-2]' -o ./lower
      ai-model get --model-id minilm --files 'tokenizer*'
    """
    with invocation.registry() as registry, Bars() as bars:
        version = registry.open(model_id, ref)
        result = version.get(**selected, output=output, on_progress=bars)
    for sentence in result.notes:
        note(sentence)
    invocation.answer(result, _lines(result, version.resolved.size))


def _lines(result: "GetResult", whole: int) -> Iterator[str]:
    yield (
        f"Got {result.model_id} {result.version} into {result.output}:"
        f" {count(len(result.files), 'file')}, {human_size(result.bytes_selected)}"
        f" ({share(result.bytes_selected, whole)} of {human_size(whole)})."
    )
    yield (
        f"Fetched {human_size(result.bytes_fetched)} by {count(result.requests, 'request')}"
        f" in {result.elapsed_s:.1f} s; {human_size(result.bytes_reused)} lay here already."
    )
    yield f"Every byte was verified against manifest {result.manifest_digest}"
