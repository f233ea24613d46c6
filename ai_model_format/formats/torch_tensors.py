"""Tensors and storages as torch's pickles describe them. Pure.

torch rebuilds a tensor by calling ``_rebuild_tensor_v2`` with a storage, an
offset, a shape and a stride. These calls are read here, never made.
"""

from dataclasses import dataclass
from typing import Any

from ai_model_format.formats.dtypes import BITS, MAX_ELEMENTS, count_elements
from ai_model_format.formats.pickle_nodes import Call, Global, Persistent, calls

_STORAGE_DTYPES = {
    "FloatStorage": "F32",
    "DoubleStorage": "F64",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
    "ComplexDoubleStorage": "C128",
    "QInt8Storage": "QI8",
    "QUInt8Storage": "QU8",
    "QInt32Storage": "QI32",
    "UntypedStorage": "U8",
}
_DTYPES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
    "complex32": "C32",
    "complex64": "C64",
    "complex128": "C128",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fn_x2": "F4_X2",
}
_SIZES = {name: bits // 8 for name, bits in BITS.items() if bits >= 8}
_SIZES |= {"C32": 4, "C128": 16, "QI8": 1, "QU8": 1, "QI32": 4, "F4_X2": 1}
_REBUILD = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_qtensor")
_PARAMETERS = ("_rebuild_parameter", "_rebuild_parameter_with_state")


class InvalidTensor(ValueError):
    """The description of a tensor contradicts itself or its storage."""


class UnusualTensor(ValueError):
    """A tensor is of a type that is not known here."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as a view of a storage.

    Attributes:
        dtype: in safetensors' words where it has one.
        shape: elements per dimension.
        stride: elements between neighbours per dimension, ``None`` where contiguous.
        storage: the storage's key.
        start: first byte in the storage.
        end: behind the last byte that an element has.
    """

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    storage: str
    start: int
    end: int


def read_view(node: Any) -> View | None:
    """Return the tensor or bare storage that a node describes, ``None`` where it is none.

    Raises:
        InvalidTensor: what is described cannot be.
        UnusualTensor: its type is not known.
    """
    if isinstance(node, Persistent):
        dtype, key, count = _storage(node)
        return View(dtype, (count,), None, key, 0, count * itemsize(dtype))
    if not isinstance(node, Call) or not isinstance(node.function, Global):
        return None
    if node.function.name in _PARAMETERS and calls(node, "torch._utils", *_PARAMETERS):
        node = node.arguments[0] if node.arguments else None
        if not isinstance(node, Call):
            return None
    if calls(node, "torch._tensor", "_rebuild_from_type_v2") and len(node.arguments) == 4:
        function, _, arguments, _ = node.arguments
        return _rebuilt(function, arguments) if isinstance(arguments, tuple) else None
    return _rebuilt(node.function, node.arguments)


def itemsize(dtype: str) -> int:
    """Return the bytes of one element of a type that ``View`` names. Pure."""
    return _SIZES[dtype]


def storage_key(persistent_id: Any) -> str:
    """Return the key in a persistent id of torch's: ``('storage', type, key, location, count)``.

    Raises:
        InvalidTensor: it is no such tuple.
    """
    if isinstance(persistent_id, tuple) and len(persistent_id) == 5:
        word, kind, key, location, count = persistent_id
        if (
            (word == "storage" and isinstance(kind, Global))
            and (isinstance(key, str) and isinstance(location, str))
            and (type(count) is int and 0 <= count <= MAX_ELEMENTS)
        ):
            return key
    raise InvalidTensor("a persistent id does not name a storage")


def _storage(node: Persistent) -> tuple[str, str, int]:
    """Return dtype, key and number of elements."""
    key = storage_key(node.id)
    kind = node.id[1]
    if kind.module not in ("torch", "torch.storage", "torch.cuda") or (
        kind.name not in _STORAGE_DTYPES
    ):
        raise UnusualTensor(f"storage {key[:80]!r} is of type {kind.module}.{kind.name}"[:300])
    return _STORAGE_DTYPES[kind.name], key, node.id[4]


def _rebuilt(function: Any, arguments: tuple[Any, ...]) -> View | None:
    if not isinstance(function, Global) or function.module != "torch._utils":
        return None
    if len(arguments) < 4 or not isinstance(arguments[0], Persistent):
        return None
    if function.name in _REBUILD:
        return _view(*arguments[:4], named=None)
    if function.name == "_rebuild_tensor_v3" and len(arguments) > 6:
        return _view(*arguments[:4], named=arguments[6])
    return None


def _view(storage: Persistent, offset: Any, shape: Any, stride: Any, *, named: Any) -> View:
    dtype, key, count = _storage(storage)
    storage_size = count * itemsize(dtype)
    if named is not None:
        if not isinstance(named, Global):
            raise InvalidTensor("its dtype is no name")
        if named.module != "torch" or named.name not in _DTYPES:
            raise UnusualTensor(f"type {named.module}.{named.name} is not known"[:300])
        dtype = _DTYPES[named.name]
    shape, stride = _extents(shape, "shape"), _extents(stride, "stride")
    if type(offset) is not int or not 0 <= offset <= MAX_ELEMENTS:
        raise InvalidTensor("its storage offset is negative or out of bounds")
    if len(shape) != len(stride):
        raise InvalidTensor("its shape and stride have different lengths")
    size = itemsize(dtype)
    start = offset * size
    if not _elements(shape):
        start = min(start, storage_size)
        return View(dtype, shape, None, key, start, start)
    last = sum((extent - 1) * step for extent, step in zip(shape, stride, strict=True))
    end = start + (last + 1) * size
    if end > storage_size:
        raise InvalidTensor(
            f"it reaches byte {end} of storage {key[:80]!r}, which has {storage_size}"
        )
    return View(dtype, shape, None if _contiguous(shape, stride) else stride, key, start, end)


def _extents(value: Any, what: str) -> tuple[int, ...]:
    if isinstance(value, Call) and calls(value, "torch", "Size") and value.arguments:
        value = value.arguments[0]
    if not isinstance(value, tuple) or len(value) > 64:
        raise InvalidTensor(f"its {what} is no tuple of up to 64 numbers")
    for number in value:
        if type(number) is not int or not 0 <= number <= MAX_ELEMENTS:
            raise InvalidTensor(f"its {what} holds a negative number or none")
    return value


def _elements(shape: tuple[int, ...]) -> int:
    try:
        return count_elements(shape)
    except ValueError as error:
        raise InvalidTensor(str(error)) from None


def _contiguous(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    expected = 1
    for extent, step in zip(reversed(shape), reversed(stride), strict=True):
        if extent != 1 and step != expected:
            return False
        expected *= extent
    return True
