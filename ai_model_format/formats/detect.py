"""Which format a file is of, decided by its bytes and never by its name.

A further format is one module with one class and one more line in ``named``.
"""

from ai_model_format.formats.interface import Index, NotIndexable, ReadRange, WeightFormat
from ai_model_format.formats.named import NAMES, format_named
from ai_model_format.manifest import OPAQUE

HEAD_SIZE = 4096
"""Bytes of a file's start that are enough to know its format."""


def detect(head: bytes, size: int) -> WeightFormat:
    """Return the format that a file of ``size`` bytes starting with ``head`` claims to be of.

    Args:
        head: the first ``HEAD_SIZE`` bytes, or all of a smaller file.
        size: bytes of the file.
    """
    return next(format for format in map(format_named, NAMES) if format.matches(head, size))


def index_file(read: ReadRange, size: int) -> tuple[WeightFormat, Index]:
    """Detect a file's format and read its structure.

    A sound file that its format cannot take apart (a deflated zip, TorchScript)
    counts as opaque: it is kept whole.

    Raises:
        InvalidWeightFile: the file claims a format and breaks its rules.
    """
    format = detect(read(0, min(size, HEAD_SIZE)), size)
    try:
        return format, format.index(read, size)
    except NotIndexable:
        opaque = format_named(OPAQUE)
        return opaque, opaque.index(read, size)
