"""Read a pickle without unpickling it: opcodes to inert nodes, in bounded memory.

Each opcode only moves nodes on a stack. Nothing is imported, nothing is called,
the memo is a dict (a list would grow to whatever index the file names), and
lengths are checked before bytes are taken. The opcodes are those of protocols
2 to 5; text opcodes of older protocols are not read. Pure.
"""

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from ai_model_format.formats.pickle_nodes import Call, Dict, Global, List, Persistent, State

MAX_PICKLE_SIZE = 64 * 1024 * 1024
MAX_OPCODES = 4_000_000
MAX_CONTAINERS = 1_000_000
MAX_NESTED_MARKS = 10_000
_MAX_INTEGER_BYTES = 1024
_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")

_RUNS_CODE = frozenset(
    """
    _pickle _thread asyncio bdb cProfile code codeop commands ctypes http imp importlib marshal
    multiprocessing nt os pdb pickle pip posix posixpath profile pty requests runpy shutil signal
    socket ssl subprocess sys tempfile threading timeit urllib webbrowser
    """.split()  # noqa: SIM905 - 36 words read better so
)
"""Modules that no checkpoint has a use for, but an attack has."""
_HARMLESS_BUILTINS = frozenset(
    """
    Ellipsis NoneType bool bytearray bytes complex dict float frozenset int list long object range
    set slice str tuple type unicode xrange
    """.split()  # noqa: SIM905
)


class InvalidPickle(ValueError):
    """A pickle is broken, or would run code of the machine that loads it."""


class UnusualPickle(ValueError):
    """A pickle is perhaps sound, but too large or too odd to be taken apart."""


def read_pickle(data: bytes) -> Any:
    """Return the node that a pickle describes.

    Raises:
        InvalidPickle: naming the offset.
        UnusualPickle: it uses opcodes of protocol 0 and 1, or is beyond a bound.
    """
    if len(data) > MAX_PICKLE_SIZE:
        raise UnusualPickle(f"{len(data)} bytes of pickle are over {MAX_PICKLE_SIZE}")
    return _Reader(data).run()


class _Reader:
    """The machine that a pickle is a program for, with inert values."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.globals: dict[tuple[str, str], Global] = {}
        self.containers = 0

    def run(self) -> Any:
        """Run to the end.

        Raises:
            InvalidPickle: naming the offset.
            UnusualPickle: it is beyond a bound.
        """
        data, actions, begin = self.data, _ACTIONS, 0
        try:
            for _ in range(MAX_OPCODES):
                begin = self.at
                opcode = data[begin]
                self.at = begin + 1
                if opcode == _STOP:
                    return self.finish()
                actions[opcode](self)
        except (InvalidPickle, UnusualPickle):
            raise
        except IndexError:
            raise InvalidPickle(f"the pickle is cut or its stack empty at byte {begin}") from None
        except KeyError as error:
            raise InvalidPickle(f"there is no memo {error} at byte {begin}") from None
        except (struct.error, UnicodeDecodeError) as error:
            raise InvalidPickle(f"at byte {begin}: {error}") from None
        raise UnusualPickle(f"the pickle has more than {MAX_OPCODES} opcodes")

    def finish(self) -> Any:
        root = self.stack.pop()
        if self.stack or self.marks:
            self.fail("values are left over")
        if self.at != len(self.data):
            self.fail("bytes follow the end")
        return root

    def fail(self, reason: str) -> NoReturn:
        raise InvalidPickle(f"{reason} at byte {self.at}")

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            self.fail(f"{size} bytes reach behind the end")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def line(self) -> str:
        end = self.data.find(b"\n", self.at, self.at + 1000)
        if end < 0:
            self.fail("a name does not end")
        text = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return text

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
            self.refuse_code(module, name)
            known = self.globals[module, name] = Global(module, name)
        return known

    def refuse_code(self, module: str, name: str) -> None:
        builtin = module in ("builtins", "__builtin__")
        dangerous = module.partition(".")[0] in _RUNS_CODE
        if dangerous or (builtin and name.partition(".")[0] not in _HARMLESS_BUILTINS):
            if builtin and name.endswith(("Error", "Exception", "Warning")):
                return
            self.fail(f"it would call {module}.{name}, which runs code,"[:300])

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


_STOP = ord(".")


def _old(reader: _Reader) -> None:
    raise UnusualPickle(f"an opcode of an old protocol at byte {reader.at - 1}")


def _unknown(reader: _Reader) -> None:
    raise InvalidPickle(f"there is no such opcode, at byte {reader.at - 1}")


def _push(value: Any) -> Callable[[_Reader], None]:
    return lambda reader: reader.stack.append(value)


_BY_OPCODE: dict[bytes, Callable[[_Reader], None]] = {
    b"(": _Reader.mark,
    b"0": _Reader.pop,
    b"1": _Reader.drop_mark,
    b"2": _Reader.duplicate,
    b"N": _push(None),
    b"\x88": _push(True),
    b"\x89": _push(False),
    b"K": _Reader.small_integer,
    b"M": _Reader.two_byte_integer,
    b"J": _Reader.integer,
    b"\x8a": lambda reader: reader.long_integer(1),
    b"\x8b": lambda reader: reader.long_integer(4),
    b"G": _Reader.real,
    b"\x8c": lambda reader: reader.text(1),
    b"X": _Reader.common_text,
    b"\x8d": lambda reader: reader.text(8),
    b"C": lambda reader: reader.raw(1),
    b"B": lambda reader: reader.raw(4),
    b"\x8e": lambda reader: reader.raw(8),
    b"U": lambda reader: reader.old_text(1),
    b"T": lambda reader: reader.old_text(4),
    b")": _push(()),
    b"\x85": lambda reader: reader.counted_tuple(1),
    b"\x86": lambda reader: reader.counted_tuple(2),
    b"\x87": lambda reader: reader.counted_tuple(3),
    b"t": _Reader.marked_tuple,
    b"]": lambda reader: reader.contain(List()),
    b"l": _Reader.marked_list,
    b"}": lambda reader: reader.contain(Dict()),
    b"d": _Reader.marked_dict,
    b"\x8f": _Reader.make_set,
    b"\x91": _Reader.frozen_set,
    b"\x96": _Reader.byte_array,
    b"a": _Reader.append,
    b"e": _Reader.appends,
    b"\x90": _Reader.add_items,
    b"s": _Reader.set_item,
    b"u": _Reader.set_items,
    b"c": _Reader.global_lines,
    b"\x93": _Reader.stack_global,
    b"R": lambda reader: reader.reduce(new=False),
    b"\x81": lambda reader: reader.reduce(new=True),
    b"b": _Reader.build,
    b"Q": _Reader.persistent,
    b"h": _Reader.short_get,
    b"j": _Reader.long_get,
    b"q": _Reader.short_put,
    b"r": _Reader.long_put,
    b"\x94": _Reader.memoize,
    b"\x80": _Reader.protocol,
    b"\x95": _Reader.frame,
}
_OLD = b"FILISVPgpio\x82\x83\x84\x92\x97\x98"
_ACTIONS: list[Callable[[_Reader], None]] = [
    _BY_OPCODE.get(bytes([code]), _old if code in _OLD else _unknown) for code in range(256)
]
