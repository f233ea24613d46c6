"""Layers: which tensors a person means by ``encoder`` or ``encoder.layer.[0-2]``.

A layer is a run of components of dotted tensor names. A pattern matches a
tensor when its components match a run of the name's components at any depth.
Pure.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MAX_PATTERN_LENGTH = 1024
_INDEX_RANGE = re.compile(r"\[(\d{1,9})-(\d{1,9})\]", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)
_PIECE = re.compile(r"\[\d{1,9}-\d{1,9}\]|\[!?[^\]]+\]|\*|\?|.", re.ASCII | re.DOTALL)


class InvalidPattern(ValueError):
    """A layer pattern cannot be read."""


class NoLayerMatches(LookupError):
    """A pattern matches no tensor.

    Attributes:
        pattern: the pattern.
        near: names of layers that look alike, best first.
    """

    def __init__(self, pattern: str, near: Sequence[str]) -> None:
        self.pattern = pattern
        self.near = near
        super().__init__(f"no tensor matches {pattern!r}")


@dataclass
class LayerNode:
    """A node of the tree of layers.

    Attributes:
        name: the component, empty for the root.
        tensors: how many tensors lie at or below.
        size: bytes of these tensors as they stand in the file; tied tensors count each.
        dtypes: of these tensors.
        children: by component, in order of first appearance, numbers by value.
    """

    name: str
    tensors: int = 0
    size: int = 0
    dtypes: set[str] = field(default_factory=set)
    children: dict[str, "LayerNode"] = field(default_factory=dict)


def split_patterns(texts: Iterable[str]) -> list[str]:
    """Split comma lists into patterns, in order, each once.

    Raises:
        InvalidPattern: a pattern is empty or too long.
    """
    patterns = [part.strip() for text in texts for part in text.split(",")]
    for pattern in patterns:
        if not pattern or len(pattern) > MAX_PATTERN_LENGTH:
            raise InvalidPattern(
                f"layer pattern {pattern[:80]!r} is empty or over {MAX_PATTERN_LENGTH} characters"
            )
    return list(dict.fromkeys(patterns))


def select_tensors(
    names: Sequence[str],
    *,
    layers: Iterable[str],
    exclude: Iterable[str] = (),
    groups: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Return the names that the patterns select, in their order.

    Args:
        names: of all tensors.
        layers: patterns, comma lists or declared group names; none selects all tensors.
        exclude: patterns of tensors to leave out again.
        groups: patterns by the group's name. A group's name wins over a component.

    Raises:
        InvalidPattern: a pattern cannot be read.
        NoLayerMatches: a pattern of ``layers`` or ``exclude`` matches no tensor.
    """
    groups = groups or {}
    wanted = split_patterns(layers)
    selected = _matching(names, wanted, groups) if wanted else set(names)
    left_out = _matching(names, split_patterns(exclude), groups)
    return [name for name in names if name in selected and name not in left_out]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a tensor's name matches ``pattern``.

    Within a component ``*`` and ``?`` stand for any characters, ``[abc]`` for
    one of these, ``[0-11]`` for a whole number in that range.

    Raises:
        InvalidPattern: the pattern cannot be read.
    """
    wanted = [_component_matcher(part, pattern) for part in _split_components(pattern)]

    def matches(name: str) -> bool:
        if name == pattern:
            return True
        parts = name.split(".")
        return any(
            all(match(part) for match, part in zip(wanted, parts[start:], strict=False))
            for start in range(len(parts) - len(wanted) + 1)
        )

    return matches


def layer_tree(tensors: Iterable[tuple[str, str, int]]) -> LayerNode:
    """Build the tree of layers from (name, dtype, size in bytes).

    Children stand in order of first appearance, but a run of numbers by their value:
    files that sort names as text have layer 10 before layer 2.
    """
    root = LayerNode("")
    for name, dtype, size in tensors:
        for node in _path_down(root, name.split(".")):
            node.tensors += 1
            node.size += size
            node.dtypes.add(dtype)
    _sort_numbers(root)
    return root


def _sort_numbers(root: LayerNode) -> None:
    """Put children that all are numbers in their order. Names may be long and nest deeply."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if all(_NUMBER.fullmatch(name) for name in node.children):
            node.children = dict(sorted(node.children.items(), key=lambda item: _by_value(item[0])))
        nodes.extend(node.children.values())


def _by_value(digits: str) -> tuple[int, str]:
    """Return what digits sort by: their value, which int() refuses to tell of very many."""
    significant = digits.lstrip("0")
    return len(significant), significant


def near_layers(pattern: str, names: Iterable[str], *, limit: int = 5) -> list[str]:
    """Return components and component runs that look like ``pattern``, best first."""
    import difflib  # lazy: only for mistakes

    known: dict[str, None] = {}
    depth = pattern.count(".") + 1
    for name in names:
        parts = name.split(".")
        known.update(
            (".".join(parts[start : start + depth]), None)
            for start in range(len(parts) - depth + 1)
        )
        known.setdefault(parts[0])
    near = difflib.get_close_matches(pattern, list(known)[:20_000], n=limit, cutoff=0.5)
    return near or list(dict.fromkeys(name.partition(".")[0] for name in known))[:limit]


def _matching(
    names: Sequence[str], patterns: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        members = groups.get(pattern, [pattern])
        tests = [matcher(member) for member in members]
        hits = {name for name in names if any(test(name) for test in tests)}
        if not hits:
            raise NoLayerMatches(pattern, near_layers(pattern, [*groups, *names]))
        found |= hits
    return found


def _split_components(pattern: str) -> list[str]:
    """Split at dots that stand outside brackets."""
    return re.split(r"\.(?![^\[]*\])", pattern)


def _component_matcher(component: str, pattern: str) -> Callable[[str], bool]:
    """Return a function that matches one component, in steps that grow with length times length.

    A regular expression would do, were it not for ``*a*a*a*a*``: patterns come with
    versions too, and backtracking through such a one would take for ever.
    """
    if not component:
        raise InvalidPattern(f"layer pattern {pattern!r} has an empty component")
    if not any(mark in component for mark in "*?["):
        return component.__eq__
    steps = [_piece_step(piece, pattern) for piece in _PIECE.findall(component)]

    def matches(part: str) -> bool:
        places = {0}
        for step in steps:
            places = step(part, places)
            if not places:
                return False
        return len(part) in places

    return matches


_Step = Callable[[str, set[int]], set[int]]
"""From the places in a component that a pattern can have reached to those behind one more piece."""


def _piece_step(piece: str, pattern: str) -> _Step:
    if piece == "*":
        return lambda part, places: set(range(min(places), len(part) + 1))
    if index_range := _INDEX_RANGE.fullmatch(piece):
        first, last = int(index_range[1]), int(index_range[2])
        if last < first:
            raise InvalidPattern(f"layer pattern {pattern!r}: {piece} runs backwards")
        return _number_step(range(first, last + 1))
    return _character_step(piece, pattern)


def _number_step(allowed: range) -> _Step:
    """Step over a whole number, never over a part of its digits."""

    def step(part: str, places: set[int]) -> set[int]:
        return {
            number.end()
            for number in _NUMBER.finditer(part)
            if number.start() in places and len(number[0]) < 20 and int(number[0]) in allowed
        }

    return step


def _character_step(piece: str, pattern: str) -> _Step:
    try:
        one = re.compile(_translate(piece), re.DOTALL)
    except re.error as error:
        raise InvalidPattern(f"layer pattern {pattern!r}: {error}") from error
    return lambda part, places: {place + 1 for place in places if one.match(part, place)}


def _translate(piece: str) -> str:
    """Return the regular expression of a piece that stands for one character."""
    if piece == "?":
        return "."
    if len(piece) == 1:
        return re.escape(piece)
    inside = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
    if inside.startswith("!"):
        return f"[^{inside[1:]}]"
    return f"[{inside.replace('^', chr(92) + '^')}]"


def _path_down(root: LayerNode, parts: Sequence[str]) -> Iterator[LayerNode]:
    node = root
    yield node
    for part in parts:
        node = node.children.setdefault(part, LayerNode(part))
        yield node
