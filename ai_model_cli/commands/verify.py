"""``ai-model verify``: check a directory on disk against the registry."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ai_model_cli import options
from ai_model_cli.errors import INTEGRITY
from ai_model_cli.invocation import Invocation
from ai_model_cli.progress import Bars
from ai_model_cli.text import count, human_size

if TYPE_CHECKING:
    from ai_model import VerifyResult


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@options.common_options
@click.pass_context
def command(ctx: click.Context, directory: Path) -> None:
    """Check a DIRECTORY that get wrote: every byte of every file.

    Names each file that is missing or bad, and the tensors whose bytes are
    wrong. Ends with 0 when all is well, else with 6.

    \b
    Example:
      ai-model verify ./minilm-v1
    """
    invocation = ctx.find_object(Invocation) or Invocation()
    with invocation.registry() as registry, Bars() as bars:
        result = registry.verify(directory, on_progress=bars)
    invocation.answer(result, _lines(result))
    ctx.exit(0 if result.ok else INTEGRITY)


def _lines(result: "VerifyResult") -> Iterator[str]:
    for file in result.files:
        if file.status != "ok":
            yield f"{file.status:8}{file.path}" + (f"  {file.reason}" if file.reason else "")
            yield from (f"          tensor {name}" for name in file.tensors)
    bad = sum(file.status != "ok" for file in result.files)
    name = f"{result.model_id} {result.version}"
    if bad:
        yield f"{bad} of {count(len(result.files), 'file')} not as in {name}."
    else:
        what = f"{count(len(result.files), 'file')}, {human_size(result.bytes_verified)}"
        yield f"Every byte is that of {name}: {what} hashed in {result.elapsed_s:.1f} s."
