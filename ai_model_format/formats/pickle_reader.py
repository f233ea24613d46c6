"""Read a pickle without unpickling it: opcodes to inert nodes, in bounded memory.

Here is which opcode does what; ``pickle_machine`` does it. The opcodes are those of
protocols 2 to 5; text opcodes of older protocols are not read. Pure.
"""

import struct
from collections.abc import Callable
from typing import Any

from ai_model_format.formats.pickle_cursor import InvalidPickle, UnusualPickle
from ai_model_format.formats.pickle_machine import Machine
from ai_model_format.formats.pickle_nodes import Dict, List

MAX_PICKLE_SIZE = 64 * 1024 * 1024
MAX_OPCODES = 4_000_000


def read_pickle(data: bytes) -> Any:
    """Return the node that a pickle describes.

    Raises:
        InvalidPickle: naming the offset.
        UnusualPickle: it uses opcodes of protocol 0 and 1, or is beyond a bound.
    """
    if len(data) > MAX_PICKLE_SIZE:
        raise UnusualPickle(f"{len(data)} bytes of pickle are over {MAX_PICKLE_SIZE}")
    machine = Machine(data)
    begin = 0
    try:
        for _ in range(MAX_OPCODES):
            begin = machine.at
            opcode = data[begin]
            machine.at = begin + 1
            if opcode == _STOP:
                return machine.finish()
            _ACTIONS[opcode](machine)
    except (InvalidPickle, UnusualPickle):
        raise
    except IndexError:
        raise InvalidPickle(f"the pickle is cut or its stack empty at byte {begin}") from None
    except KeyError as error:
        raise InvalidPickle(f"there is no memo {error} at byte {begin}") from None
    except (struct.error, UnicodeDecodeError) as error:
        raise InvalidPickle(f"at byte {begin}: {error}") from None
    raise UnusualPickle(f"the pickle has more than {MAX_OPCODES} opcodes")


_STOP = ord(".")


def _old(machine: Machine) -> None:
    raise UnusualPickle(f"an opcode of an old protocol at byte {machine.at - 1}")


def _unknown(machine: Machine) -> None:
    raise InvalidPickle(f"there is no such opcode, at byte {machine.at - 1}")


def _push(value: Any) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(value)


_BY_OPCODE: dict[bytes, Callable[[Machine], None]] = {
    b"(": Machine.mark,
    b"0": Machine.pop,
    b"1": Machine.drop_mark,
    b"2": Machine.duplicate,
    b"N": _push(None),
    b"\x88": _push(True),
    b"\x89": _push(False),
    b"K": Machine.small_integer,
    b"M": Machine.two_byte_integer,
    b"J": Machine.integer,
    b"\x8a": lambda machine: machine.long_integer(1),
    b"\x8b": lambda machine: machine.long_integer(4),
    b"G": Machine.real,
    b"\x8c": lambda machine: machine.text(1),
    b"X": Machine.common_text,
    b"\x8d": lambda machine: machine.text(8),
    b"C": lambda machine: machine.raw(1),
    b"B": lambda machine: machine.raw(4),
    b"\x8e": lambda machine: machine.raw(8),
    b"U": lambda machine: machine.old_text(1),
    b"T": lambda machine: machine.old_text(4),
    b")": _push(()),
    b"\x85": lambda machine: machine.counted_tuple(1),
    b"\x86": lambda machine: machine.counted_tuple(2),
    b"\x87": lambda machine: machine.counted_tuple(3),
    b"t": Machine.marked_tuple,
    b"]": lambda machine: machine.contain(List()),
    b"l": Machine.marked_list,
    b"}": lambda machine: machine.contain(Dict()),
    b"d": Machine.marked_dict,
    b"\x8f": Machine.make_set,
    b"\x91": Machine.frozen_set,
    b"\x96": Machine.byte_array,
    b"a": Machine.append,
    b"e": Machine.appends,
    b"\x90": Machine.add_items,
    b"s": Machine.set_item,
    b"u": Machine.set_items,
    b"c": Machine.global_lines,
    b"\x93": Machine.stack_global,
    b"R": lambda machine: machine.reduce(new=False),
    b"\x81": lambda machine: machine.reduce(new=True),
    b"b": Machine.build,
    b"Q": Machine.persistent,
    b"h": Machine.short_get,
    b"j": Machine.long_get,
    b"q": Machine.short_put,
    b"r": Machine.long_put,
    b"\x94": Machine.memoize,
    b"\x80": Machine.protocol,
    b"\x95": Machine.frame,
}
_OLD = b"FILISVPgpio\x82\x83\x84\x92\x97\x98"
_ACTIONS: list[Callable[[Machine], None]] = [
    _BY_OPCODE.get(bytes([code]), _old if code in _OLD else _unknown) for code in range(256)
]
