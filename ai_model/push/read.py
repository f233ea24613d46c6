"""The bytes of an object that is sent, read from the local files it is made of."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from ai_model.errors import FileChanged
from ai_model.push.hashing import read_piece
from ai_model.push.plan import PlannedObject
from ai_model.push.scan import LocalFile
from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import Digest

PIECE_SIZE = 256 * 1024
"""Small enough that a slow uplink sends one before a send times out."""


@dataclass(frozen=True, slots=True)
class PartBody:
    """One part's bytes, as often as they are iterated. The pieces share one buffer.

    Attributes:
        files: by path inside the version.
        slices: (path, range) one behind the other.
        on_piece: told the size of each piece before it is sent.
        piece_size: bytes of a piece at most.
    """

    files: Mapping[str, LocalFile]
    slices: Sequence[tuple[str, ByteRange]]
    on_piece: Callable[[int], None]
    piece_size: int = PIECE_SIZE

    def __iter__(self) -> Iterator[memoryview]:
        """Yield the bytes.

        Raises:
            FileChanged: a file is not the one that was hashed any more.
        """
        buffer = memoryview(bytearray(self.piece_size))
        for path, wanted in self.slices:
            yield from self._read(self.files[path], wanted, buffer)

    def _read(
        self, local: LocalFile, wanted: ByteRange, buffer: memoryview
    ) -> Iterator[memoryview]:
        try:
            descriptor = os.open(local.source, os.O_RDONLY)
        except OSError as error:
            raise FileChanged(local.source) from error
        try:
            local.check_unchanged(descriptor)
            for start in range(wanted.start, wanted.end, self.piece_size):
                piece = buffer[: min(self.piece_size, wanted.end - start)]
                read_piece(descriptor, piece, start)
                self.on_piece(len(piece))
                yield piece
            local.check_unchanged(descriptor)
        except EOFError as error:
            raise FileChanged(local.source) from error
        finally:
            os.close(descriptor)


def object_digest(planned: PlannedObject, files: Mapping[str, LocalFile]) -> Digest:
    """Return the digest of an object, reading its bytes where the plan does not know it.

    Raises:
        FileChanged: a file is not the one that was hashed any more.
    """
    if planned.digest is not None:
        return planned.digest
    hasher = sha256()
    everything = planned.slices(ByteRange(0, planned.size))
    for piece in PartBody(files, everything, lambda _size: None):
        hasher.update(piece)
    return f"sha256:{hasher.hexdigest()}"
