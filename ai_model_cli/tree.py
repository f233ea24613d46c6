"""Trees as lines on a terminal. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name")


def branches(root: Name, links: Mapping[Name, Sequence[Name]]) -> Iterator[tuple[str, Name, bool]]:
    """Yield all that can be reached from ``root``: (lines to draw before it, name, again).

    What is reached a second time is marked, and what follows it is not repeated.
    """
    stack = [("", name, last) for name, last in _backwards(links.get(root, ()))]
    seen = {root}
    while stack:  # no recursion: a line of versions may be longer than Python's stack
        before, name, is_last = stack.pop()
        again = name in seen
        yield before + ("└─ " if is_last else "├─ "), name, again
        if not again:
            seen.add(name)
            below = before + ("   " if is_last else "│  ")
            stack += [(below, child, last) for child, last in _backwards(links.get(name, ()))]


def _backwards(names: Sequence[Name]) -> list[tuple[Name, bool]]:
    """Return the names from the last, each with whether it is that one."""
    return [(name, place == 0) for place, name in enumerate(reversed(names))]
