"""``ai-model lineage``: what a version was made from, and what was made from it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ai_model_cli import options
from ai_model_cli.invocation import Invocation
from ai_model_cli.text import dataset_name, when
from ai_model_cli.tree import branches

if TYPE_CHECKING:
    from ai_model_format.wire import LineageInfo, LineageName, LineageNode

Name = tuple[str, str]
"""A model's id and a version's name."""


@click.command()
@options.model_id
@options.ref
@click.option(
    "--direction",
    type=click.Choice(["up", "down", "both"]),
    default="both",
    show_default=True,
    help="up to what it was made from, down to what was made from it.",
)
@click.option(
    "--depth", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N",
    help="Generations at most.",
)  # fmt: skip
@click.option(
    "--max-nodes", type=click.IntRange(1, 1000), default=200, show_default=True, metavar="N",
    help="Versions at most, near ones first.",
)  # fmt: skip
@options.common_options
@click.pass_obj
def command(
    invocation: Invocation, model_id: str, ref: str, direction: str, depth: int, max_nodes: int
) -> None:
    """Show what a version was made from, and what was made from it.

    Follows the parents named at push, over all models that you may read. Each
    version comes with its time, data and commit. Times are UTC.

    \b
    Examples:
      ai-model lineage --model-id minilm --version production
      ai-model lineage --model-id base --version v1 --direction down --depth 2
    """
    with invocation.registry() as registry:
        info = registry.lineage(
            model_id,
            ref,
            direction=direction,  # type: ignore[arg-type]  # click has checked it
            depth=depth,
            max_nodes=max_nodes,
        )
    invocation.answer(info, _lines(info))


def _lines(info: "LineageInfo") -> Iterator[str]:
    shown = {_key(node): _line(node) for node in info.nodes}
    root = (info.model_id, info.version)
    yield shown[root]
    if info.direction != "down":
        parents = _links((_key(edge.child), _key(edge.parent)) for edge in info.edges)
        yield from _side("made from", root, parents, shown)
    if info.direction != "up":
        children = _links((_key(edge.parent), _key(edge.child)) for edge in info.edges)
        yield from _side("made into", root, children, shown)
    if info.cut:
        yield "More lies beyond --depth or --max-nodes."


def _side(
    title: str, root: Name, links: dict[Name, list[Name]], shown: dict[Name, str]
) -> Iterator[str]:
    """Yield one side of the tree; what is reached twice has what follows it only once."""
    if not links.get(root):
        yield f"{title}: nothing that is known"
        return
    yield f"{title}:"
    for lines, name, again in branches(root, links):
        yield f"{lines}{' '.join(name)} (see above)" if again else f"{lines}{shown[name]}"


def _links(pairs: Iterator[tuple[Name, Name]]) -> dict[Name, list[Name]]:
    found: dict[Name, list[Name]] = {}
    for start, end in pairs:
        found.setdefault(start, []).append(end)
    return found


def _key(named: "LineageName | LineageNode") -> Name:
    return named.model_id, named.version


def _line(node: "LineageNode") -> str:
    yanked = " (yanked)" if node.yanked_at else ""
    facts = (
        f"{node.model_id} {node.version}{yanked}",
        when(node.created_at),
        dataset_name(node.dataset),
        (node.git_commit or "")[:12],
    )
    return "  ".join(fact for fact in facts if fact)
