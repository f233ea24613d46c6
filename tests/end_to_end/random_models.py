"""Random models on disk, and random next versions of them, by a seed.

A model is its tensors and how they stand in files; ``write`` makes real files of it. Every
kind of change that training, conversion and tidying up bring is one small function.
"""

import json
import shutil
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch

BLOCKS = ("encoder", "decoder", "head", "encoder.adapter")
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8)
NAMES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.uint8: "U8",
}
LONG = 17 * 1024 * 1024
"""Bytes of a tensor that takes two chunks."""


@dataclass
class Weights:
    """A weight file: a format and tensors by name, in order."""

    format: str
    names: list[str]


@dataclass
class Model:
    """What a version is made of.

    Attributes:
        tensors: by name.
        ties: names that share the storage of another tensor, where the format can say so.
        files: weight files by path without ending.
        plain: other files by path.
        sharded: the safetensors files are shards with an index.
    """

    tensors: dict[str, torch.Tensor]
    ties: dict[str, str] = field(default_factory=dict)
    files: dict[str, Weights] = field(default_factory=dict)
    plain: dict[str, bytes] = field(default_factory=dict)
    sharded: bool = False

    def copy(self) -> "Model":
        """Return another model that can be changed."""
        files = {path: Weights(w.format, list(w.names)) for path, w in self.files.items()}
        return Model(dict(self.tensors), dict(self.ties), files, dict(self.plain), self.sharded)

    def write(self, folder: Path) -> None:
        """Make the files; whatever was in the folder goes."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, data in self.plain.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        shards: dict[str, str] = {}
        for path, weights in self.files.items():
            name = f"{path}.{'safetensors' if weights.format == 'safetensors' else 'pt'}"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            tensors = {key: self.tensors[self.ties.get(key, key)] for key in weights.names}
            if weights.format == "safetensors":
                (folder / name).write_bytes(safetensors_bytes(tensors))
                shards |= dict.fromkeys(weights.names, name)
            else:
                torch.save(_nested(tensors, deep=weights.format == "torch-nested"), folder / name)
        if self.sharded and shards:
            index = {"metadata": {"total_size": 0}, "weight_map": shards}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def safetensors_bytes(tensors: dict[str, torch.Tensor]) -> bytes:
    """Write a safetensors file in the order given; the library would sort."""
    header: dict[str, object] = {}
    bodies = []
    offset = 0
    for name, tensor in tensors.items():
        body = raw(tensor)
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(body)],
        }
        bodies.append(body)
        offset += len(body)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(bodies)


def raw(tensor: torch.Tensor) -> bytes:
    """Return a tensor's bytes."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def random_model(random: Random) -> Model:
    """Make a first version."""
    model = Model({})
    for _ in range(random.randint(3, 14)):
        add_tensor(model, random)
    if random.random() < 0.15:
        name = "encoder.long.weight"
        model.tensors[name] = _tensor(random, torch.uint8, (LONG,))
    _deal(model, random, random.randint(1, 3))
    model.sharded = random.random() < 0.5
    for path in ("config.json", "tokenizer/wörter %20.txt", "empty"):
        model.plain[path] = b"" if path == "empty" else random.randbytes(random.randint(1, 5000))
    if random.random() < 0.5:
        tie(model, random)
    return model


def next_model(model: Model, random: Random) -> Model:
    """Change a model in one to four ways."""
    changed = model.copy()
    for change in random.choices(CHANGES, k=random.randint(1, 4)):
        change(changed, random)
    return changed


def add_tensor(model: Model, random: Random) -> None:
    block = random.choice(BLOCKS)
    name = f"{block}.layer.{random.randint(0, 4)}.{random.choice(['weight', 'bias', 'scale'])}"
    if name in model.tensors or name in model.ties:
        return
    shape = random.choice([(), (0, 3), (7,), (random.randint(1, 400), random.randint(1, 300))])
    model.tensors[name] = _tensor(random, random.choice(DTYPES), shape)
    if model.files:
        random.choice(list(model.files.values())).names.append(name)


def remove_tensor(model: Model, random: Random) -> None:
    name = random.choice(sorted(model.tensors))
    if len(model.tensors) < 3 or name in model.ties.values():
        return
    del model.tensors[name]
    _forget(model, name)


def fine_tune(model: Model, random: Random) -> None:
    for name in random.sample(sorted(model.tensors), k=max(1, len(model.tensors) // 4)):
        old = model.tensors[name]
        model.tensors[name] = _tensor(random, old.dtype, tuple(old.shape))


def resize(model: Model, random: Random) -> None:
    name = random.choice(sorted(model.tensors))
    shape = (random.randint(1, 200), random.randint(1, 200))
    model.tensors[name] = _tensor(random, model.tensors[name].dtype, shape)


def reorder(model: Model, random: Random) -> None:
    for weights in model.files.values():
        random.shuffle(weights.names)


def tie(model: Model, random: Random) -> None:
    target = random.choice(sorted(model.tensors))
    if "head.tied.weight" not in model.ties and model.files:
        model.ties["head.tied.weight"] = target
        next(w for w in model.files.values() if target in w.names).names.append("head.tied.weight")


def untie(model: Model, random: Random) -> None:
    for name, target in list(model.ties.items()):
        del model.ties[name]
        model.tensors[name] = model.tensors[target].clone()


def move(model: Model, random: Random) -> None:
    _deal(model, random, len(model.files))


def reshard(model: Model, random: Random) -> None:
    _deal(model, random, random.randint(1, 4))
    model.sharded = random.random() < 0.7


def convert(model: Model, random: Random) -> None:
    for weights in model.files.values():
        weights.format = _format(random)


def keep_both(model: Model, random: Random) -> None:
    """Put every tensor into a second file of another format, as converters do."""
    names = [name for weights in model.files.values() for name in weights.names]
    model.files["converted/all"] = Weights(_format(random), names)
    model.sharded = False


def rename_file(model: Model, random: Random) -> None:
    path = random.choice(sorted(model.files))
    model.files = {("renamed " if p == path else "") + p: w for p, w in model.files.items()}


def change_plain(model: Model, random: Random) -> None:
    model.plain[f"note-{random.randint(0, 3)}.txt"] = random.randbytes(random.randint(0, 90_000))
    if random.random() < 0.3:
        model.plain.pop("config.json", None)


CHANGES: tuple[Callable[[Model, Random], None], ...] = (
    add_tensor,
    remove_tensor,
    fine_tune,
    resize,
    reorder,
    tie,
    untie,
    move,
    reshard,
    convert,
    keep_both,
    rename_file,
    change_plain,
)


def _deal(model: Model, random: Random, count: int) -> None:
    """Deal all tensors out to so many files anew; what is tied stays together."""
    formats = [w.format for w in model.files.values()] or [_format(random)]
    names = sorted(model.tensors)
    random.shuffle(names)
    hands: list[list[str]] = [names[at::count] for at in range(count)]
    for hand in hands:
        hand += [alias for alias, name in model.ties.items() if name in hand]
    model.files = {
        f"model-{at + 1:05}-of-{count:05}": Weights(random.choice(formats), hand)
        for at, hand in enumerate(hands)
        if hand
    }


def _forget(model: Model, name: str) -> None:
    for path, weights in list(model.files.items()):
        weights.names = [other for other in weights.names if other != name]
        if not weights.names:
            del model.files[path]


def _format(random: Random) -> str:
    return random.choice(["safetensors", "safetensors", "torch", "torch-nested"])


def _tensor(random: Random, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    count = torch.Size(shape).numel() * torch.empty((), dtype=dtype).element_size()
    data = bytearray(random.randbytes(count))
    flat = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    return flat.view(dtype).reshape(shape)


def _nested(tensors: dict[str, torch.Tensor], *, deep: bool) -> dict[str, object]:
    flat = OrderedDict(tensors)
    return {"state": flat, "epoch": 3, "note": "kept"} if deep else flat
