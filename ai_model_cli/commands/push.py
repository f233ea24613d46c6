"""``ai-model push``: publish a file or a directory as a version."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ai_model_cli import metadata, options
from ai_model_cli.invocation import Invocation, note
from ai_model_cli.progress import Bars
from ai_model_cli.text import count, human_size

if TYPE_CHECKING:
    from ai_model import PushResult


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@options.model_id
@options.new_version
@metadata.metadata_options
@click.option("--alias", metavar="NAME", help="Point this alias at the version once published.")
@options.transfer
@options.common_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    path: Path,
    model_id: str,
    version: str,
    alias: str | None,
    **given: Any,
) -> None:
    """Publish the file or directory PATH as an immutable version.

    Only bytes that the registry lacks are sent. Kill it at any moment and run it
    again: it goes on where it stopped. The git commit is that of the
    checkout which holds PATH, else of the working directory's. Sizes are
    printed in powers of 1000 (1 MB is 1,000,000 bytes); --json has bytes.

    \b
    Examples:
      ai-model push model.safetensors --model-id minilm --version v1
      ai-model push ./out --model-id nlp/minilm --version v2.3 --alias staging \\
        --dataset snli@1.0 --param lr=3e-5 --metric accuracy=0.91 \\
        --parent nlp/minilm@v2.2 --group head=pooler,classifier
    """
    described = metadata.gather(given)
    with invocation.registry() as registry, Bars() as bars:
        result = registry.push(
            path, model_id, version, metadata=described, alias=alias, on_progress=bars
        )
    for sentence in result.notes:
        note(sentence)
    invocation.answer(result, _lines(result, alias))


def _lines(result: "PushResult", alias: str | None) -> Iterator[str]:
    name = f"{result.model_id} {result.version}"
    what = f"{count(len(result.files), 'file')}, {human_size(result.bytes_total)}"
    if result.created:
        yield f"Published {name}: {what}."
        yield (
            f"Sent {human_size(result.bytes_sent)} in {result.elapsed_s:.1f} s;"
            f" the registry held {human_size(result.bytes_already_there)} already."
        )
        more = result.bytes_not_sent - result.bytes_already_there
        if more > 0:
            yield f"{human_size(more)} more stood here twice or had been sent before."
    else:
        changed = f"only alias {alias} was set" if alias else "nothing changed"
        yield f"{name} was there already with the same bytes ({what}); {changed}."
    yield f"Manifest {result.manifest_digest}"
