"""Which format a file is of, decided by its bytes and never by its name.

A further format is one module with one class and one more line in ``FORMATS``.
"""

from ai_model_format.formats.interface import Index, NotIndexable, ReadRange, WeightFormat
from ai_model_format.formats.opaque import Opaque
from ai_model_format.formats.safetensors import Safetensors
from ai_model_format.formats.torch_zip import TorchZip

HEAD_SIZE = 4096
"""Bytes of a file's start that are enough to know its format."""

FORMATS: tuple[WeightFormat, ...] = (Safetensors(), TorchZip(), Opaque())
"""In the order they are asked; the last one takes every file."""

_BY_NAME = {format.name: format for format in FORMATS}


def detect(head: bytes, size: int) -> WeightFormat:
    """Return the format that a file of ``size`` bytes starting with ``head`` claims to be of.

    Args:
        head: the first ``HEAD_SIZE`` bytes, or all of a smaller file.
        size: bytes of the file.
    """
    return next(format for format in FORMATS if format.matches(head, size))


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
        opaque = FORMATS[-1]
        return opaque, opaque.index(read, size)


def format_named(name: str) -> WeightFormat:
    """Return the format that a manifest names.

    Raises:
        LookupError: this version of ai-model has no such format.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise LookupError(f"weight format {name[:80]!r} is not known here") from None
