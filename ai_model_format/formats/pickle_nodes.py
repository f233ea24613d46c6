"""What a pickle says, as inert values.

Nothing here can call or import anything: a ``Call`` is a note that a pickle
would call something. Numbers, text, bytes, ``None`` and tuples stand for
themselves. Nodes are compared by identity, because a pickle can share them and
a short one can describe a graph with more paths than there are atoms.
"""

from dataclasses import dataclass, field
from typing import Any

MAX_DEPTH = 100
"""Deepest nesting that is walked or written."""


@dataclass(slots=True, eq=False)
class Global:
    """The name of a class or function."""

    module: str
    name: str


@dataclass(slots=True, eq=False)
class Dict:
    """A dict, as pairs in the order they are set."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class List:
    """A list."""

    elements: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Persistent:
    """A reference to something outside the pickle, in torch a storage."""

    id: Any


@dataclass(slots=True, eq=False)
class State:
    """What a pickle would set an object's attributes from."""

    value: Any


@dataclass(slots=True, eq=False)
class Call:
    """An object that a pickle would make by calling ``function``.

    Attributes:
        function: a ``Global``, or any other node.
        arguments: what it would be called with.
        new: made by ``__new__`` rather than by a plain call.
        elements: what is appended to the object, such as a list's subclass.
        items: what is set in the object, such as an ordered dict.
        state: what its attributes are set from.
    """

    function: Any
    arguments: tuple[Any, ...]
    new: bool = False
    elements: list[Any] | None = None
    items: list[tuple[Any, Any]] | None = None
    state: State | None = None


def calls(node: Any, module: str, *names: str) -> bool:
    """Say whether ``node`` is a call of one of ``names`` in ``module``. Pure."""
    if not isinstance(node, Call) or not isinstance(node.function, Global):
        return False
    return node.function.module == module and node.function.name in names
