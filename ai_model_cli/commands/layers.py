"""``ai-model layers``: the tree of a version's layers, with tensors, dtypes and sizes."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import count, human_size, table

if TYPE_CHECKING:
    from ai_model.version import Version
    from ai_model_format.layers import LayerNode

_HEAD = ("LAYER", ">TENSORS", ">SIZE", "DTYPES", "SHAPE")


@click.command()
@options.model_id
@options.ref
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="N",
    help="How many components of the dotted names to show.",
)
@options.common_options
@click.pass_obj
def command(invocation: Invocation, model_id: str, ref: str, depth: int) -> None:
    """Show the layers of a version as a tree: what get --layers can select.

    Sizes are printed in powers of 1000; --json has bytes, and every tensor with
    its file, dtype and shape.

    \b
    Examples:
      ai-model layers --model-id minilm --version v1
      ai-model layers --model-id minilm --version production --depth 5
    """
    with invocation.registry() as registry:
        version = registry.open(model_id, ref)
        tree = version.layers()
        invocation.answer(_document(version, tree, depth), _lines(version, tree, depth))


def _lines(version: "Version", tree: "LayerNode", depth: int) -> Iterator[str]:
    shapes = {t.name: str(list(t.shape)) for file in version.files for t in file.tensors}
    what = f"{count(tree.tensors, 'tensor')}, {human_size(tree.size)}"
    yield f"{version.model_id} {version.name}: {what}"
    if tree.tensors:
        yield from table(_HEAD, list(_rows(tree, shapes, "", depth)))
    else:
        yield "Its files hold no tensors that can be told apart; get brings them whole."
    for group, patterns in version.resolved.groups.items():
        yield f"group {group} = {', '.join(patterns)}"


def _rows(
    node: "LayerNode", shapes: Mapping[str, str], prefix: str, depth: int
) -> Iterator[tuple[str, ...]]:
    for child in node.children.values() if depth else ():
        path = f"{prefix}{child.name}"
        yield (
            "  " * prefix.count(".") + child.name,
            f"{child.tensors:,}",
            human_size(child.size),
            ", ".join(sorted(child.dtypes)),
            shapes.get(path, ""),
        )
        yield from _rows(child, shapes, f"{path}.", depth - 1)


def _document(version: "Version", tree: "LayerNode", depth: int) -> dict[str, Any]:
    return {
        "model_id": version.model_id,
        "version": version.name,
        "manifest_digest": version.digest,
        "tensors": [
            {
                "file": file.path,
                "name": tensor.name,
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "size": tensor.range.size,
            }
            for file in version.files
            for tensor in file.tensors
        ],
        "groups": version.resolved.groups,
        "layers": _branches(tree, depth),
    }


def _branches(node: "LayerNode", depth: int) -> list[dict[str, Any]]:
    return [
        {
            "name": child.name,
            "tensors": child.tensors,
            "size": child.size,
            "dtypes": sorted(child.dtypes),
            "layers": _branches(child, depth - 1),
        }
        for child in (node.children.values() if depth else ())
    ]
