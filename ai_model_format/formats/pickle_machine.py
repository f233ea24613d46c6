"""The machine that a pickle is a program for: a stack, marks and a memo of inert nodes.

Each method is what one opcode does, or a step of it. Nothing is imported and nothing is
called; the memo is a dict, as a list would grow to whatever index the file names. Pure.
"""

import struct
from typing import Any

from ai_model_format.formats.pickle_cursor import Cursor, UnusualPickle
from ai_model_format.formats.pickle_names import runs_code
from ai_model_format.formats.pickle_nodes import Call, Dict, Global, List, Persistent, State

MAX_CONTAINERS = 1_000_000
MAX_NESTED_MARKS = 10_000
_MAX_INTEGER_BYTES = 1024
_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")


class Machine(Cursor):
    """The machine that a pickle is a program for, with inert values."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.globals: dict[tuple[str, str], Global] = {}
        self.containers = 0

    def finish(self) -> Any:
        root = self.stack.pop()
        if self.stack or self.marks:
            self.fail("values are left over")
        if self.at != len(self.data):
            self.fail("bytes follow the end")
        return root

    def count_container(self) -> None:
        self.containers += 1
        if self.containers > MAX_CONTAINERS:
            raise UnusualPickle(f"the pickle has more than {MAX_CONTAINERS} containers")

    def contain(self, node: Any) -> None:
        self.count_container()
        self.stack.append(node)

    def pop_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def mark(self) -> None:
        if len(self.marks) >= MAX_NESTED_MARKS:
            self.fail("marks nest too deep")
        self.marks.append(self.stack)
        self.stack = []

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def drop_mark(self) -> None:
        self.pop_mark()

    def duplicate(self) -> None:
        self.stack.append(self.stack[-1])

    # Atoms

    def small_integer(self) -> None:
        self.stack.append(self.data[self.at])
        self.at += 1

    def two_byte_integer(self) -> None:
        self.stack.append(_U16.unpack_from(self.data, self.at)[0])
        self.at += 2

    def integer(self) -> None:
        self.stack.append(_I32.unpack_from(self.data, self.at)[0])
        self.at += 4

    def long_integer(self, size_bytes: int) -> None:
        size = self.number(size_bytes)
        if size > _MAX_INTEGER_BYTES:
            self.fail(f"an integer of {size} bytes")
        self.stack.append(int.from_bytes(self.take(size), "little", signed=True))

    def real(self) -> None:
        self.stack.append(struct.unpack(">d", self.take(8))[0])

    def common_text(self) -> None:
        data, at = self.data, self.at
        start = at + 4
        self.at = end = start + int(_U32.unpack_from(data, at)[0])
        if end > len(data):
            self.fail("text reaches behind the end")
        self.stack.append(data[start:end].decode("utf-8", "surrogatepass"))

    def text(self, size_bytes: int) -> None:
        self.stack.append(self.take(self.number(size_bytes)).decode("utf-8", "surrogatepass"))

    def raw(self, size_bytes: int) -> None:
        self.stack.append(self.take(self.number(size_bytes)))

    def old_text(self, size_bytes: int) -> None:
        """Read Python 2's text, which may be any bytes."""
        piece = self.take(self.number(size_bytes))
        try:
            self.stack.append(piece.decode("utf-8"))
        except UnicodeDecodeError:
            raise UnusualPickle("text of Python 2 that is not UTF-8") from None

    # Containers

    def counted_tuple(self, size: int) -> None:
        stack = self.stack
        if len(stack) < size:
            self.fail("the stack is too short for a tuple")
        stack[-size:] = [tuple(stack[-size:])]
        self.count_container()

    def marked_tuple(self) -> None:
        self.contain(tuple(self.pop_mark()))

    def marked_list(self) -> None:
        self.contain(List(self.pop_mark()))

    def marked_dict(self) -> None:
        self.contain(Dict(self.pairs(self.pop_mark())))

    def pairs(self, items: list[Any]) -> list[tuple[Any, Any]]:
        if len(items) % 2:
            self.fail("a key has no value")
        return list(zip(items[::2], items[1::2], strict=True))

    def make_set(self) -> None:
        self.contain(Call(self.named("__builtin__", "set"), (List(),)))

    def frozen_set(self) -> None:
        self.contain(Call(self.named("__builtin__", "frozenset"), (List(self.pop_mark()),)))

    def byte_array(self) -> None:
        self.raw(8)
        self.contain(Call(self.named("__builtin__", "bytearray"), (self.stack.pop(),)))

    def append(self) -> None:
        value = self.stack.pop()
        self.elements().append(value)

    def appends(self) -> None:
        values = self.pop_mark()
        self.elements().extend(values)

    def elements(self) -> list[Any]:
        owner = self.stack[-1]
        if isinstance(owner, Call):
            if owner.elements is None:
                owner.elements = []
            return owner.elements
        if not isinstance(owner, List):
            self.fail("something is appended to what is no list")
        return owner.elements

    def add_items(self) -> None:
        values = self.pop_mark()
        owner = self.stack[-1]
        if not isinstance(owner, Call) or not isinstance(owner.arguments[0], List):
            self.fail("something is added to what is no set")
        owner.arguments[0].elements.extend(values)

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.items().append((key, value))

    def set_items(self) -> None:
        pairs = self.pairs(self.pop_mark())
        self.items().extend(pairs)

    def items(self) -> list[tuple[Any, Any]]:
        owner = self.stack[-1]
        if isinstance(owner, Call):
            if owner.items is None:
                owner.items = []
            return owner.items
        if not isinstance(owner, Dict):
            self.fail("something is set in what is no dict")
        return owner.items

    # Objects

    def named(self, module: str, name: str) -> Global:
        known = self.globals.get((module, name))
        if known is None:
            if runs_code(module, name):
                self.fail(f"it would call {module}.{name}, which runs code,"[:300])
            known = self.globals[module, name] = Global(module, name)
        return known

    def global_lines(self) -> None:
        module = self.line()
        self.stack.append(self.named(module, self.line()))

    def stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            self.fail("a name is not text")
        self.stack.append(self.named(module, name))

    def reduce(self, *, new: bool) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(arguments, tuple):
            self.fail("arguments are no tuple")
        self.contain(Call(function, arguments, new=new))

    def build(self) -> None:
        state, owner = self.stack.pop(), self.stack[-1]
        if not isinstance(owner, Call):
            self.fail("attributes are set on what is no object")
        if owner.state is not None:
            raise UnusualPickle("an object's attributes are set twice")
        owner.state = State(state)

    def persistent(self) -> None:
        self.contain(Persistent(self.stack.pop()))

    # Memo and frame

    def long_get(self) -> None:
        self.stack.append(self.memo[_U32.unpack_from(self.data, self.at)[0]])
        self.at += 4

    def long_put(self) -> None:
        self.memo[_U32.unpack_from(self.data, self.at)[0]] = self.stack[-1]
        self.at += 4

    def short_get(self) -> None:
        self.stack.append(self.memo[self.data[self.at]])
        self.at += 1

    def short_put(self) -> None:
        self.memo[self.data[self.at]] = self.stack[-1]
        self.at += 1

    def memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def protocol(self) -> None:
        if self.number(1) > 5:
            self.fail("the protocol is not known")

    def frame(self) -> None:
        self.take(8)
