"""safetensors: a JSON header, then the tensors' bytes without gaps.

``u64le N``, ``N`` bytes of UTF-8 JSON, then a buffer that the tensors'
``data_offsets`` tile exactly. The safetensors library takes the last of two
equal keys and any name; this reader refuses the first and what no manifest can
hold. Names are data and never become paths here.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from ai_model_format.byte_range import ByteRange
from ai_model_format.formats.dtypes import contiguous_size
from ai_model_format.formats.interface import (
    MAX_TENSORS,
    Index,
    InvalidWeightFile,
    Literal,
    NotIndexable,
    ReadRange,
    Segment,
    SourceRange,
    check_tensor_name,
    check_tensors_known,
)
from ai_model_format.formats.strict_json import InvalidJson, TooManyParts, parse_object
from ai_model_format.manifest import Tensor

MAX_HEADER_SIZE = 100_000_000
"""Bytes; the safetensors library has the same limit."""
_LENGTH_SIZE = 8
_METADATA = "__metadata__"


class Safetensors:
    """The safetensors format."""

    name = "safetensors"
    media_type = "application/vnd.safetensors"

    def matches(self, head: bytes, size: int) -> bool:
        """Say whether ``head`` is a plausible header length and an opening brace."""
        length = int.from_bytes(head[:_LENGTH_SIZE], "little")
        return size > _LENGTH_SIZE and head[8:9] == b"{" and 2 <= length <= MAX_HEADER_SIZE

    def index(self, read: ReadRange, size: int) -> Index:
        """Read the header.

        Raises:
            InvalidWeightFile: the header lies about lengths, offsets or shapes, is not
                plain JSON, or the tensors do not tile the buffer.
            NotIndexable: there are more than ``MAX_TENSORS`` tensors.
        """
        end = _header_end(read, size)
        entries = _parse_header(read(_LENGTH_SIZE, end))
        tensors = _tensors(entries, buffer_start=end)
        _check_tiles(tensors, ByteRange(end, size))
        return Index(tensors=tensors, structure=[ByteRange(0, end)])

    def subset(
        self, read: ReadRange, size: int, tensors: Sequence[Tensor], chosen: Collection[str]
    ) -> list[Segment]:
        """Put a new header before the chosen tensors, in their order in the file.

        ``__metadata__`` is kept. Choosing every tensor gives the file itself.

        Raises:
            InvalidWeightFile: the header does not fit ``tensors``.
        """
        chosen = check_tensors_known(self.name, tensors, chosen)
        if len(chosen) == len(tensors):
            return [SourceRange(ByteRange(0, size))]
        end = _header_end(read, size)
        entries = _parse_header(read(_LENGTH_SIZE, end))
        kept = [tensor for tensor in tensors if tensor.name in chosen]
        _check_same(kept, _tensors(entries, buffer_start=end))
        header = _subset_header(entries, kept)
        return [Literal(header), *_runs(kept)]


def _invalid(reason: str) -> NoReturn:
    raise InvalidWeightFile(Safetensors.name, reason)


def _header_end(read: ReadRange, size: int) -> int:
    if size < _LENGTH_SIZE:
        _invalid(f"{size} bytes cannot hold a header length")
    length = int.from_bytes(read(0, _LENGTH_SIZE), "little")
    if length > MAX_HEADER_SIZE:
        _invalid(f"the header length {length} at offset 0 is over {MAX_HEADER_SIZE}")
    if length > size - _LENGTH_SIZE:
        _invalid(f"the header of {length} bytes ends behind the file of {size} bytes")
    return _LENGTH_SIZE + length


def _parse_header(data: bytes) -> dict[str, Any]:
    if not data.startswith(b"{"):
        _invalid("the header at offset 8 does not start with '{'")
    try:
        value = parse_object(data)
    except InvalidJson as error:
        _invalid(f"the header at offset 8: {error}")
    except TooManyParts as error:
        raise NotIndexable(Safetensors.name, f"the header at offset 8: {error}") from error
    if len(value) > MAX_TENSORS + 1:
        raise NotIndexable(Safetensors.name, f"the header holds more than {MAX_TENSORS} tensors")
    _check_metadata(value.get(_METADATA, {}))
    return value


def _check_metadata(metadata: Any) -> None:
    if not isinstance(metadata, dict):
        _invalid(f"{_METADATA} is not an object")
    for key, value in metadata.items():
        if not isinstance(value, str):
            _invalid(f"{_METADATA} {key[:200]!r} is not text")
        try:
            (key + value).encode("utf-8")
        except UnicodeEncodeError:
            _invalid(f"{_METADATA} {key[:200]!r} is not valid Unicode")


def _tensors(entries: Mapping[str, Any], *, buffer_start: int) -> list[Tensor]:
    tensors = [
        _tensor(name, entry, buffer_start) for name, entry in entries.items() if name != _METADATA
    ]
    return sorted(tensors, key=lambda tensor: (tensor.start, tensor.end))


def _tensor(name: str, entry: Any, buffer_start: int) -> Tensor:
    check_tensor_name(Safetensors.name, name)
    try:
        dtype, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not (isinstance(dtype, str) and isinstance(shape, list)):
            raise TypeError("its dtype or shape is of the wrong type")
        if any(type(number) is not int for number in (*shape, start, end)):
            raise TypeError("its shape or offsets are not whole numbers")
        if not 0 <= start <= end:
            raise ValueError(f"its bytes run from {start} to {end}")
        if contiguous_size(dtype, shape) != end - start:
            raise ValueError(f"{dtype} {shape!r:.100} does not take {end - start} bytes")
    except KeyError as error:
        _invalid(f"tensor {name[:200]!r}: it has no {error}")
    except (TypeError, ValueError) as error:
        _invalid(f"tensor {name[:200]!r}: {error}")
    return Tensor(name, dtype, tuple(shape), buffer_start + start, buffer_start + end)


def _check_tiles(tensors: Sequence[Tensor], buffer: ByteRange) -> None:
    """Refuse holes, overlaps, trailing bytes and a truncated buffer."""
    expected = buffer.start
    for tensor in tensors:
        if tensor.end > buffer.end:
            _invalid(f"tensor {tensor.name[:200]!r} ends at {tensor.end}, the file at {buffer.end}")
        if tensor.start != expected:
            kind = "overlaps its neighbour" if tensor.start < expected else "follows a hole"
            _invalid(f"tensor {tensor.name[:200]!r} at offset {tensor.start} {kind}")
        expected = tensor.end
    if expected != buffer.end:
        _invalid(f"{buffer.end - expected} bytes at offset {expected} belong to no tensor")


def _check_same(wanted: Iterable[Tensor], found: Iterable[Tensor]) -> None:
    places = {t.name: (t.dtype, t.shape, t.start, t.end) for t in found}
    for t in wanted:
        if places.get(t.name) != (t.dtype, t.shape, t.start, t.end):
            _invalid(f"tensor {t.name[:200]!r} is not where its header says")


def _subset_header(entries: Mapping[str, Any], kept: Sequence[Tensor]) -> bytes:
    """Return length and JSON of a header, padded with spaces to a multiple of 8 bytes."""
    header = {_METADATA: entries[_METADATA]} if _METADATA in entries else {}
    offset = 0
    for tensor in kept:
        size = tensor.end - tensor.start
        header[tensor.name] = entries[tensor.name] | {"data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(_LENGTH_SIZE, "little") + text


def _runs(tensors: Iterable[Tensor]) -> list[Segment]:
    """Join neighbours: one segment for each run of tensors that touch."""
    runs: list[ByteRange] = []
    for tensor in tensors:
        if runs and runs[-1].end == tensor.start:
            runs[-1] = ByteRange(runs[-1].start, tensor.end)
        else:
            runs.append(tensor.range)
    return [SourceRange(run) for run in runs if run.size]
