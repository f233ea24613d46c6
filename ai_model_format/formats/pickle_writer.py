"""Write inert nodes as a pickle of protocol 2, which torch loads with ``weights_only``. Pure."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ai_model_format.formats.pickle_nodes import (
    MAX_DEPTH,
    Call,
    Dict,
    Global,
    List,
    Persistent,
)


class NestedTooDeep(ValueError):
    """Nodes nest deeper than is written."""


_ATOMS = (bool, int, float, str, bytes)

PersistentId = tuple[Any, ...]


def write_pickle(root: Any, *, rename: Callable[[PersistentId], PersistentId]) -> bytes:
    """Return a pickle of ``root``; nodes that are shared stay shared.

    Args:
        root: the node to write.
        rename: gives the persistent id to write for the one in a node.

    Raises:
        NestedTooDeep: beyond twice ``MAX_DEPTH``, counting arguments and states.
    """
    writer = _Writer(rename)
    writer.out += b"\x80\x02"
    writer.node(root, 0)
    writer.out += b"."
    return bytes(writer.out)


class _Writer:
    def __init__(self, rename: Callable[[PersistentId], PersistentId]) -> None:
        self.rename = rename
        self.out = bytearray()
        self.count = 0
        self.texts: dict[str, int] = {}
        self.nodes: dict[int, int] = {}
        self.encode = Global("_codecs", "encode")

    def node(self, node: Any, depth: int) -> None:
        """Write one node and what it holds."""
        if depth > 2 * MAX_DEPTH:
            raise NestedTooDeep(f"values nest deeper than {2 * MAX_DEPTH}")
        known = self.nodes.get(id(node))
        if known is not None:
            self.get(known)
            return
        if node is None or isinstance(node, _ATOMS):
            self.atom(node)
        elif isinstance(node, Global):
            self.out += f"c{node.module}\n{node.name}\n".encode()
            self.remember(node)
        elif isinstance(node, Persistent):
            self.fixed(self.rename(node.id), depth)
            self.out += b"Q"
        elif isinstance(node, Call):
            self.call(node, depth)
        else:
            self.container(node, depth)

    def container(self, node: Dict | List | tuple[Any, ...], depth: int) -> None:
        """Write a container; what can hold itself is remembered before its members."""
        match node:
            case Dict():
                self.out += b"}"
                self.remember(node)
                self.items(node.items, depth)
            case List():
                self.out += b"]"
                self.remember(node)
                self.elements(node.elements, depth)
            case _:
                self.fixed(node, depth)
                if node:
                    self.remember(node)

    def call(self, node: Call, depth: int) -> None:
        self.node(node.function, depth + 1)
        self.node(node.arguments, depth + 1)
        self.out += b"\x81" if node.new else b"R"
        self.remember(node)
        self.elements(node.elements, depth)
        self.items(node.items, depth)
        if node.state is not None:
            self.node(node.state.value, depth + 1)
            self.out += b"b"

    def fixed(self, node: tuple[Any, ...], depth: int) -> None:
        """Write a tuple, which its caller may remember."""
        if not node:
            self.out += b")"
            return
        if len(node) > 3:
            self.out += b"("
        for item in node:
            self.node(item, depth + 1)
        self.out += b"t" if len(node) > 3 else b"\x85\x86\x87"[len(node) - 1 : len(node)]

    def elements(self, elements: Sequence[Any] | None, depth: int) -> None:
        if not elements:
            return
        self.out += b"("
        for element in elements:
            self.node(element, depth + 1)
        self.out += b"e"

    def items(self, items: Sequence[tuple[Any, Any]] | None, depth: int) -> None:
        if not items:
            return
        self.out += b"("
        for key, value in items:
            self.node(key, depth + 1)
            self.node(value, depth + 1)
        self.out += b"u"

    def atom(self, value: Any) -> None:
        match value:
            case None:
                self.out += b"N"
            case bool():
                self.out += b"\x88" if value else b"\x89"
            case int():
                self.integer(value)
            case float():
                self.out += b"G" + struct.pack(">d", value)
            case str():
                self.text(value)
            case _:
                self.raw(value)

    def raw(self, value: bytes) -> None:
        """Write bytes as pickle does in protocol 2, which has none: as a call that makes them."""
        self.node(self.encode, 0)
        self.text(value.decode("latin-1"))
        self.text("latin1")
        self.out += b"\x86R"

    def integer(self, value: int) -> None:
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.out += b"\x8a" + bytes([len(data)]) if len(data) < 256 else _long_prefix(data)
            self.out += data

    def text(self, value: str) -> None:
        if value in self.texts:
            self.get(self.texts[value])
            return
        data = value.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(data)) + data
        self.texts[value] = self.put()

    def remember(self, node: Any) -> None:
        self.nodes[id(node)] = self.put()

    def put(self) -> int:
        number = self.count
        self.count += 1
        self.out += b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)
        return number

    def get(self, number: int) -> None:
        self.out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)


def _long_prefix(data: bytes) -> bytes:
    return b"\x8b" + struct.pack("<i", len(data))
