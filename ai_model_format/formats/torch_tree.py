"""The tree of keys in a torch checkpoint: which tensors it has, and what is left without some.

Dicts, lists and tuples are taken apart. An object of any other class is kept
whole when one of its tensors is chosen and left out when none is. In a list or
tuple ``None`` stands where a tensor was not chosen, so that the others keep
their places and names. Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ai_model_format.formats.interface import MAX_TENSORS
from ai_model_format.formats.pickle_nodes import MAX_DEPTH, Call, Dict, List, Persistent
from ai_model_format.formats.torch_tensors import InvalidTensor, UnusualTensor, View, read_view
from ai_model_format.manifest import MAX_TENSOR_NAME_BYTES

MAX_VISITS = 1_000_000
MAX_PATHS = 16
"""Paths that lead to one tensor, on average; a short pickle can describe any number."""
MAX_NAMES_SIZE = 64 * 1024 * 1024
"""Characters of all names: a short pickle can put any number of tensors below one long key."""

KeyPath = tuple[str | int, ...]
_ATOMS = (str, int, float, bytes, bool, type(None))
_LEFT_OUT = object()


@dataclass(slots=True, eq=False)
class Branch:
    """A node with tensors at or below it.

    Attributes:
        node: of the pickle.
        path: keys from the root.
        view: where the node is a tensor itself.
        children: (index in the node, branch), in order.
        whole: the node cannot be taken apart.
        name: of a tensor, unique in the file.
    """

    node: Any
    path: KeyPath
    view: View | None
    children: list[tuple[int, "Branch"]]
    whole: bool = False
    name: str = ""


def grow(root: Any) -> Branch:
    """Find every tensor below ``root`` and give it a name.

    A name is the key path joined by dots. Where several paths join to one name,
    the first in the pickle's order has it and the others get ``#2``, ``#3``...

    Raises:
        InvalidTensor: naming the path.
        UnusualTensor: there are tensors of unknown types, or too many.
    """
    tree = _Grower().grow(root, (), 0) or Branch(root, (), None, [])
    _name_tensors(list(tensors_of(tree)))
    return tree


def tensors_of(tree: Branch) -> Iterator[Branch]:
    """Yield the branches that are tensors, in the pickle's order."""
    if tree.view is not None:
        yield tree
    for _, child in tree.children:
        yield from tensors_of(child)


def prune(tree: Branch, chosen: Collection[str]) -> tuple[Any, list[Branch]]:
    """Return what is left of the root with just the ``chosen`` tensors, and its tensors.

    These may be more than ``chosen``: an object is kept whole. Nodes in which
    nothing changes stay the same nodes, so what was shared stays shared.
    """
    kept: list[Branch] = []
    node = _prune(tree, chosen, kept)
    return (None if node is _LEFT_OUT else node), kept


def text_of_path(path: Sequence[str | int]) -> str:
    """Join a key path by dots. Pure."""
    return ".".join(map(str, path))


class _Grower:
    """Walks down from the root, counting steps so that no graph takes for ever."""

    def __init__(self) -> None:
        self.visits = 0
        self.tensors = 0
        self.names_size = 0
        self.distinct: set[int] = set()
        self.barren: set[int] = set()
        self.above: set[int] = set()

    def grow(self, node: Any, path: KeyPath, depth: int) -> Branch | None:
        """Return the branch at ``node``, ``None`` where no tensor is."""
        self.visits += 1
        if self.visits > MAX_VISITS:
            raise UnusualTensor(f"the checkpoint has more than {MAX_VISITS} values")
        if isinstance(node, _ATOMS) or id(node) in self.barren or id(node) in self.above:
            return None
        if depth > MAX_DEPTH:
            raise InvalidTensor(f"values nest deeper than {MAX_DEPTH}")
        self.above.add(id(node))
        branch = self.tensor(node, path) or self.container(node, path, depth)
        self.above.discard(id(node))
        if branch is None:
            self.barren.add(id(node))
        return branch

    def tensor(self, node: Any, path: KeyPath) -> Branch | None:
        if not isinstance(node, Call | Persistent):
            return None
        try:
            view = read_view(node)
        except InvalidTensor as error:
            raise InvalidTensor(f"tensor {_start_of(path)!r}: {error}") from None
        if view is None:
            return None
        self.tensors += 1
        self.distinct.add(id(node))
        if self.tensors > MAX_TENSORS:
            raise UnusualTensor(f"the checkpoint has more than {MAX_TENSORS} tensors")
        if self.tensors > 1000 and self.tensors > MAX_PATHS * len(self.distinct):
            raise UnusualTensor(f"more than {MAX_PATHS} paths lead to each tensor")
        self.measure(path)
        return Branch(node, path, view, [])

    def measure(self, path: KeyPath) -> None:
        """Refuse names that are too long before any is joined."""
        size = sum(len(str(key)) + 1 for key in path)
        if size > MAX_TENSOR_NAME_BYTES + 1:
            raise InvalidTensor(
                f"tensor {_start_of(path)!r}: its name is longer than {MAX_TENSOR_NAME_BYTES} bytes"
            )
        self.names_size += size
        if self.names_size > MAX_NAMES_SIZE:
            raise UnusualTensor(f"the names of tensors have more than {MAX_NAMES_SIZE} characters")

    def container(self, node: Any, path: KeyPath, depth: int) -> Branch | None:
        children = [
            (index, branch)
            for index, (key, value) in enumerate(_members(node))
            if (branch := self.grow(value, (*path, *key), depth + 1))
        ]
        if isinstance(node, Call):
            rest = [
                (-1, branch)
                for key, value in _inside(node)
                if (branch := self.grow(value, (*path, *key), depth + 1))
            ]
            if rest:
                return Branch(node, path, None, [*rest, *children], whole=True)
        return Branch(node, path, None, children) if children else None


def _members(node: Any) -> Iterator[tuple[KeyPath, Any]]:
    """Yield (key, value) of what can be taken out of a node one by one."""
    match node:
        case Dict():
            yield from (((_key(key),), value) for key, value in node.items)
        case Call():
            yield from (((_key(key),), value) for key, value in node.items or ())
        case List():
            yield from (((index,), value) for index, value in enumerate(node.elements))
        case tuple():
            yield from (((index,), value) for index, value in enumerate(node))


def _inside(node: Call) -> Iterator[tuple[KeyPath, Any]]:
    """Yield (key, value) of what an object is made of and cannot lose."""
    yield from (((index,), value) for index, value in enumerate(node.arguments))
    yield from (((index,), value) for index, value in enumerate(node.elements or ()))
    if node.state is not None:
        yield (), node.state.value


def _key(key: Any) -> str | int:
    """Return a key as part of a path: text and numbers as they are, others in words."""
    if type(key) is int and abs(key) < 2**53:
        return key
    if isinstance(key, str):
        return key
    if isinstance(key, _ATOMS):
        return _short(key)
    if isinstance(key, tuple) and len(key) <= 8 and all(isinstance(part, _ATOMS) for part in key):
        return ",".join(map(_short, key))
    return "?"


def _short(atom: Any) -> str:
    """Return an atom in at most 100 characters."""
    return str(atom[:100] if isinstance(atom, bytes) else atom)[:100]


def _start_of(path: KeyPath) -> str:
    """Return as much of a joined path as an error shows."""
    return text_of_path([str(key)[:200] for key in path])[:200]


def _name_tensors(tensors: Sequence[Branch]) -> None:
    plain = [text_of_path(tensor.path) for tensor in tensors]
    taken = set(plain)
    seen: defaultdict[str, int] = defaultdict(int)
    for tensor, name in zip(tensors, plain, strict=True):
        seen[name] += 1
        tensor.name = name
        while seen[name] > 1 and tensor.name in taken:
            tensor.name = f"{name}#{seen[name]}"
            seen[name] += tensor.name in taken
        taken.add(tensor.name)


def _prune(branch: Branch, chosen: Collection[str], kept: list[Branch]) -> Any:
    if branch.view is not None:
        if branch.name not in chosen:
            return _LEFT_OUT
        kept.append(branch)
        return branch.node
    if branch.whole:
        inside = list(tensors_of(branch))
        if not any(tensor.name in chosen for tensor in inside):
            return _LEFT_OUT
        kept.extend(inside)
        return branch.node
    changes = {}
    for index, child in branch.children:
        node = _prune(child, chosen, kept)
        if node is not child.node:
            changes[index] = node
    return _changed(branch.node, changes) if changes else branch.node


def _changed(node: Any, changes: dict[int, Any]) -> Any:
    """Return a copy of a container with other members, leaving the node as it is."""
    match node:
        case Dict():
            return Dict(_changed_items(node.items, changes))
        case Call():
            items = _changed_items(node.items or [], changes)
            return Call(node.function, node.arguments, node.new, node.elements, items, node.state)
        case List():
            return List(_changed_elements(node.elements, changes))
        case _:
            return tuple(_changed_elements(node, changes))


def _changed_items(
    items: Sequence[tuple[Any, Any]], changes: dict[int, Any]
) -> list[tuple[Any, Any]]:
    return [
        (key, changes.get(index, value))
        for index, (key, value) in enumerate(items)
        if changes.get(index) is not _LEFT_OUT
    ]


def _changed_elements(elements: Sequence[Any], changes: dict[int, Any]) -> list[Any]:
    changed = [changes.get(index, value) for index, value in enumerate(elements)]
    return [None if element is _LEFT_OUT else element for element in changed]
