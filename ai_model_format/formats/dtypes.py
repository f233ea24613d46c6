"""Element types by the names safetensors gives them, and the sizes that follow. Pure."""

from collections.abc import Sequence

MAX_ELEMENTS = 2**53 - 1
"""Largest extent and largest product of extents: what JSON keeps exact."""

BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of one element. Types under 8 bits are packed, so sizes are counted in bits."""


def count_elements(shape: Sequence[int]) -> int:
    """Return the product of ``shape``.

    Raises:
        ValueError: an extent is negative, or the product is beyond ``MAX_ELEMENTS``.
    """
    count = 1
    for extent in shape:
        if not 0 <= extent <= MAX_ELEMENTS:
            raise ValueError("an extent is negative or out of bounds")
        count *= extent
        if count > MAX_ELEMENTS:
            raise ValueError("its shape overflows")
    return count


def contiguous_size(dtype: str, shape: Sequence[int]) -> int:
    """Return the bytes of a contiguous tensor.

    Raises:
        ValueError: the type is not known, the shape overflows or ends inside a byte.
    """
    if dtype not in BITS:
        raise ValueError(f"its dtype {dtype[:40]!r} is not known")
    size, rest = divmod(count_elements(shape) * BITS[dtype], 8)
    if rest:
        raise ValueError(f"its {dtype} elements end inside a byte")
    return size
