"""Models to move: safetensors made from a seed, byte for byte the same on every machine.

Random bytes do not compress, so no peer gains or loses by trying to.
"""

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

BLOCKS = 40
PARTS = ("attention.query", "attention.key", "attention.value", "mlp.up", "mlp.down")
EVERY_TENTH = 10
PIECE = 1024 * 1024
A_TENTH = f"decoder.layers.[0-{BLOCKS // 10 - 1}]"
"""What ``--layers`` takes to select a tenth of a model."""


def tensor_names() -> list[str]:
    """Return names as a transformer has them, in file order."""
    return [f"decoder.layers.{block}.{part}.weight" for block in range(BLOCKS) for part in PARTS]


def write_model(path: Path, size: int, *, seed: int, changed: int | None = None) -> Path:
    """Write a model of about ``size`` bytes.

    Every tensor's bytes follow from ``seed`` and its name alone; with ``changed``, every tenth
    tensor's follow from that seed instead: a fine-tune.
    """
    each = max(16, size // len(tensor_names()) // 16 * 16)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(header(dict.fromkeys(tensor_names(), each)))
        for number, name in enumerate(tensor_names()):
            tuned = changed is not None and is_tuned(number)
            for piece in _pieces(f"{changed if tuned else seed}:{name}", each):
                file.write(piece)
    return path


def changed_bytes(path: Path) -> int:
    """Return how many bytes of a model a fine-tune changes."""
    sizes = _tensor_sizes(path)
    return sum(sizes[name] for number, name in enumerate(tensor_names()) if is_tuned(number))


def selected_bytes(path: Path) -> int:
    """Return how many bytes ``A_TENTH`` selects."""
    return sum(list(_tensor_sizes(path).values())[: BLOCKS // 10 * len(PARTS)])


def tensor_digests(path: Path) -> dict[str, bytes]:
    """Return the SHA-256 of each tensor's bytes, by name.

    In small pieces: what the harness holds counts as its children's peak memory.
    """
    digests = {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
        for name, entry in entries.items():
            start, end = entry["data_offsets"]
            file.seek(8 + length + start)
            hasher = hashlib.sha256()
            for at in range(start, end, PIECE):
                hasher.update(file.read(min(PIECE, end - at)))
            digests[name] = hasher.digest()
    return digests


def is_tuned(number: int) -> bool:
    """Say whether a fine-tune changes the tensor at this place of the file."""
    return number % EVERY_TENTH == 3


def _tensor_sizes(path: Path) -> dict[str, int]:
    with path.open("rb") as file:
        entries = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {
        name: entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in entries.items()
    }


def header(sizes: dict[str, int]) -> bytes:
    """Return the head of a safetensors file that holds F32 tensors of these sizes, in order."""
    entries, at = {}, 0
    for name, size in sizes.items():
        shape = [size // 4]
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _pieces(seed: str, size: int) -> Iterator[bytes]:
    generator = random.Random(seed)
    for start in range(0, size, PIECE):
        yield generator.randbytes(min(PIECE, size - start))
