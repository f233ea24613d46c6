"""What a weight format implements, and nothing about any one format.

A format reads the structure of a file (never its tensors' bytes, never by
running code), and says how a file of the same format with fewer tensors is
put together. Both are pure: bytes come through a callable that the caller
gives, so the same code serves a local file, a remote one and the service.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from ai_model_format.byte_range import ByteRange
from ai_model_format.manifest import MAX_TENSOR_NAME_BYTES, Tensor

MAX_TENSORS = 250_000
"""In one file; a file with more is kept whole."""

ReadRange = Callable[[int, int], bytes]
"""``read(start, end)`` returns exactly ``end - start`` bytes of the file."""


class InvalidWeightFile(ValueError):
    """A file says it is of a format and breaks that format's rules.

    Attributes:
        format: the format's name.
        reason: what is wrong, naming the tensor or the offset.
    """

    def __init__(self, format: str, reason: str) -> None:
        self.format = format
        self.reason = reason
        super().__init__(f"not a valid {format} file: {reason}")


class NotIndexable(ValueError):
    """A sound file that cannot be taken apart, such as a deflated zip or TorchScript.

    Whoever indexes keeps it whole, as an opaque file; ``detect.index_file`` does so.

    Attributes:
        format: the name of the format it seemed to be of.
        reason: why it cannot be indexed.
    """

    def __init__(self, format: str, reason: str) -> None:
        self.format = format
        self.reason = reason
        super().__init__(f"this {format} file is kept whole: {reason}")


class SubsetNotPossible(ValueError):
    """A format cannot write a file that holds only some of its tensors."""


@dataclass(frozen=True, slots=True)
class Index:
    """What a weight file holds.

    Attributes:
        tensors: in order of their place in the file, names unique.
        structure: ranges besides the tensors that ``subset`` reads, such as a header.
        borders: further ranges that ``subset`` may copy, such as torch's storages, so that
            chunks are cut there too.
    """

    tensors: Sequence[Tensor]
    structure: Sequence[ByteRange]
    borders: Sequence[ByteRange] = ()


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes of an output that stand in no source."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Bytes of an output that are copied from the whole file."""

    range: ByteRange


Segment = Literal | SourceRange


class WeightFormat(Protocol):
    """One weight format. Implementations hold no state."""

    name: str
    media_type: str

    def matches(self, head: bytes, size: int) -> bool:
        """Say whether a file that starts with ``head`` (up to 4 KiB) claims this format."""

    def index(self, read: ReadRange, size: int) -> Index:
        """Read the structure of a file of ``size`` bytes.

        Raises:
            InvalidWeightFile: the file breaks the format's rules.
            NotIndexable: the file is sound, but must be kept whole.
        """

    def subset(
        self, read: ReadRange, size: int, tensors: Sequence[Tensor], chosen: Collection[str]
    ) -> list[Segment]:
        """Say how to write a file of this format with just the ``chosen`` tensors.

        ``read`` answers within ``Index.structure`` only. What a chosen tensor
        needs (the storage it shares with others) comes along. Every source range
        starts and ends where chunks do: at a tensor, structure or border.

        Raises:
            InvalidWeightFile: the structure does not fit ``tensors``.
            SubsetNotPossible: this format has no such files.
        """


def check_tensor_name(format: str, name: str) -> str:
    """Return ``name`` if a manifest can hold it.

    Raises:
        InvalidWeightFile: it is too long, holds NUL or is not valid Unicode.
    """
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidWeightFile(format, f"tensor {name[:200]!r}: not valid Unicode") from None
    if length > MAX_TENSOR_NAME_BYTES:
        reason = f"tensor {name[:200]!r}: its name is longer than {MAX_TENSOR_NAME_BYTES} bytes"
        raise InvalidWeightFile(format, reason)
    if "\0" in name:
        raise InvalidWeightFile(format, f"tensor {name[:200]!r}: its name holds NUL")
    return name


def check_tensors_known(
    format: str, tensors: Sequence[Tensor], chosen: Collection[str]
) -> frozenset[str]:
    """Return ``chosen`` as a set of names that ``tensors`` all has.

    Raises:
        InvalidWeightFile: there is no such tensor.
    """
    wanted = frozenset(chosen)
    unknown = wanted - {tensor.name for tensor in tensors}
    if unknown:
        raise InvalidWeightFile(format, f"there is no tensor {min(unknown)[:200]!r}")
    return wanted
