"""``ai-model show``: everything about one version."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import dataset_name, human_size, table, when

if TYPE_CHECKING:
    from ai_model_format.wire import Metadata, VersionInfo


@click.command()
@options.model_id
@options.ref
@options.common_options
@click.pass_obj
def command(invocation: Invocation, model_id: str, ref: str) -> None:
    """Show everything about a version: who, when, from what, which files.

    Sizes are printed in powers of 1000; --json has bytes. Times are UTC.

    \b
    Example:
      ai-model show --model-id minilm --version production
    """
    with invocation.registry() as registry:
        info = registry.open(model_id, ref).info
    invocation.answer(info, _lines(info))


def _lines(info: "VersionInfo") -> Iterator[str]:
    yield f"{info.model_id} {info.version}"
    for name, value in (*_facts(info), *_described(info.metadata)):
        if value:
            yield f"  {name:14}{value}"
    rows = [(file.path, human_size(file.size), file.format, file.sha256) for file in info.files]
    yield from table(("FILE", ">SIZE", "FORMAT", "SHA-256"), rows)


def _facts(info: "VersionInfo") -> Iterator[tuple[str, str]]:
    yield "manifest", info.manifest_digest
    yield "size", f"{human_size(info.size)}; {human_size(info.stored_bytes)} were stored for it"
    yield "created", f"{when(info.created_at)} by {info.created_by}"
    if info.yanked_at:
        yield "yanked", f"{when(info.yanked_at)}: {info.yank_reason}"
    yield "aliases", ", ".join(info.aliases)


def _described(metadata: "Metadata") -> Iterator[tuple[str, str]]:
    yield "dataset", dataset_name(metadata.dataset)
    yield "git commit", metadata.git_commit or ""
    yield "parents", ", ".join(f"{parent.model_id}@{parent.version}" for parent in metadata.parents)
    for name, values in (("parameters", metadata.parameters), ("metrics", metadata.metrics)):
        yield name, ", ".join(f"{key}={_short(value)}" for key, value in values.items())
    yield "tags", ", ".join(f"{key}={value}" for key, value in metadata.tags.items())
    yield "groups", "; ".join(f"{key}={','.join(names)}" for key, names in metadata.groups.items())
    for name, schema in (("input", metadata.input_schema), ("output", metadata.output_schema)):
        yield f"{name} schema", _short(schema) if schema else ""


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text):,} characters; see --json)"
