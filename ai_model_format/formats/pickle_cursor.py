"""A place in the bytes of a pickle, from which pieces are taken. Pure.

Lengths are checked before bytes are taken, so that a length that lies costs nothing.
"""

from typing import NoReturn


class InvalidPickle(ValueError):
    """A pickle is broken, or would run code of the machine that loads it."""


class UnusualPickle(ValueError):
    """A pickle is perhaps sound, but too large or too odd to be taken apart."""


class Cursor:
    """Bytes and how far they are read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fail(self, reason: str) -> NoReturn:
        """Say what is wrong and where."""
        raise InvalidPickle(f"{reason} at byte {self.at}")

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        end = self.at + size
        if end > len(self.data):
            self.fail(f"{size} bytes reach behind the end")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, size: int) -> int:
        """Return the next ``size`` bytes as a number, lowest byte first."""
        return int.from_bytes(self.take(size), "little")

    def line(self) -> str:
        """Return the text up to the end of the line."""
        end = self.data.find(b"\n", self.at, self.at + 1000)
        if end < 0:
            self.fail("a name does not end")
        text = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return text
