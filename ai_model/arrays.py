"""From raw little-endian bytes to numpy arrays and torch tensors."""

import sys
from collections.abc import Callable
from typing import Any

from ai_model.errors import NotSupported
from ai_model_format.formats.dtypes import BITS
from ai_model_format.manifest import Tensor

MakeArray = Callable[[Tensor, bytearray], Any]

_NUMPY = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    "C64": "<c8",
    "C128": "<c16",
}
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_TORCH = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
    "C128": "complex128",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


def numpy_maker() -> MakeArray:
    """Return what makes numpy arrays.

    Raises:
        NotSupported: numpy is not installed.
    """
    try:
        import numpy as np  # lazy: not everybody loads arrays
    except ImportError as error:
        raise _missing("numpy") from error

    def make(tensor: Tensor, data: bytearray) -> Any:
        array = np.frombuffer(data, dtype=_numpy_dtype(np, tensor))
        if tensor.stride is None:
            return array.reshape(tensor.shape)
        steps = [step * array.itemsize for step in tensor.stride]
        return np.lib.stride_tricks.as_strided(array, tensor.shape, steps)

    return make


def torch_maker() -> MakeArray:
    """Return what makes torch tensors.

    Raises:
        NotSupported: torch is not installed, or the machine is big-endian.
    """
    try:
        import torch  # lazy: takes a second and a gigabyte
    except ImportError as error:
        raise _missing("torch") from error
    if sys.byteorder != "little":
        raise NotSupported("Tensors are little-endian and this machine is not.")

    def make(tensor: Tensor, data: bytearray) -> Any:
        dtype = getattr(torch, _TORCH.get(tensor.dtype, ""), None)
        if dtype is None:
            raise _unknown(tensor, "torch")
        if not data:
            return torch.empty(tensor.shape, dtype=dtype)
        flat = torch.frombuffer(data, dtype=dtype)
        if tensor.stride is None:
            return flat.reshape(tensor.shape)
        return flat.as_strided(tensor.shape, tensor.stride)

    return make


def _numpy_dtype(np: Any, tensor: Tensor) -> Any:
    if tensor.dtype in _NUMPY:
        return np.dtype(_NUMPY[tensor.dtype])
    if tensor.dtype not in _ML_DTYPES:
        raise _unknown(tensor, "numpy")
    try:
        import ml_dtypes  # lazy: only bfloat16 and the 8-bit floats need it
    except ImportError as error:
        raise _missing("ml_dtypes") from error
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[tensor.dtype]))


def _missing(package: str) -> NotSupported:
    return NotSupported(
        f"{package} is not installed.",
        way_out=f"Install it, such as by `pip install {package.replace('_', '-')}`.",
    )


def _unknown(tensor: Tensor, framework: str) -> NotSupported:
    packed = BITS.get(tensor.dtype, 8) < 8
    reason = "whose elements are smaller than a byte" if packed else "which it does not know"
    return NotSupported(
        f"{framework} cannot hold tensor {tensor.name!r} of dtype {tensor.dtype}, {reason}.",
        way_out="Exclude it, or get the file.",
    )
