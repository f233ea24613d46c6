"""Whatever two versions hold and whatever lies on the machine, every byte comes out right.

``AI_MODEL_TEST_PAIRS`` is how many random pairs of versions each store gets (default 3),
``AI_MODEL_TEST_FIRST_SEED`` where their seeds begin.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file

from ai_model import GetResult, Registry
from tests.end_to_end.random_models import Model, next_model, random_model, raw

PAIRS = int(os.environ.get("AI_MODEL_TEST_PAIRS", "3"))
FIRST_SEED = int(os.environ.get("AI_MODEL_TEST_FIRST_SEED", "0"))
PATTERNS = ("encoder", "decoder", "head", "layer.0", "encoder.layer.[0-2]", "*.weight", "adapter")


@dataclass
class Pair:
    """Two versions, as files and in a registry."""

    random: Random
    model_id: str
    folders: dict[str, Path]
    client: Callable[[], Registry]
    output: Path

    def get(self, client: Registry, version: str, **options: object) -> GetResult:
        """Get into the output directory and check each byte that is there then."""
        got = client.get(self.model_id, version, output=self.output, **options)
        check(got, self.folders[version], options.get("layers", ()))
        bad = {file.path for file in client.verify(self.output).files if file.status != "ok"}
        assert not bad & {file.path for file in got.files}
        return got

    def patterns(self, version: str) -> list[str]:
        """Return one to three patterns, each of which selects something."""
        names = {name for path in self.folders[version].rglob("*") for name in tensors_of(path)}
        good = [pattern for pattern in PATTERNS if any(matches(n, pattern) for n in names)]
        return self.random.sample(good, k=min(len(good), self.random.randint(1, 3)))


@pytest.fixture(params=range(FIRST_SEED, FIRST_SEED + PAIRS))
def pair(request, any_registry, model_id, tmp_path, new_client) -> Pair:
    random = Random(f"{model_id} {request.param}")
    first = random_model(random)
    models: dict[str, Model] = {"v1": first, "v2": next_model(first, random)}
    folders = {version: tmp_path / version for version in models}
    pusher = new_client(any_registry)
    for version, model in models.items():
        model.write(folders[version])
        pusher.push(folders[version], model_id, version)
    return Pair(random, model_id, folders, lambda: new_client(any_registry), tmp_path / "out")


def test_every_byte_comes_out_right(pair):
    client = pair.client()
    first = pair.get(client, "v1")
    assert first.bytes_reused == 0
    assert first.bytes_fetched <= first.bytes_selected * 1.02 + 64 * 1024
    elsewhere = client.get(pair.model_id, "v2", output=pair.output.with_name("elsewhere"))
    check(elsewhere, pair.folders["v2"], ())
    new = bytes_not_in(client, pair.model_id, "v2", "v1")
    assert new <= elsewhere.bytes_fetched <= new * 1.02 + 64 * 1024
    assert pair.get(client, "v2").bytes_fetched == 0


def test_parts_grow_into_the_whole(pair):
    client = pair.client()
    some, more = pair.patterns("v1"), pair.patterns("v1")
    pair.get(client, "v1", layers=some)
    grown = pair.get(client, "v1", layers=[*some, *more])
    again = pair.get(client, "v1", layers=[*some, *more])
    assert again.bytes_fetched <= structure_size(client, pair.model_id, "v1") + 16 * 1024
    assert grown.bytes_fetched <= grown.bytes_selected * 1.02 + 64 * 1024
    pair.get(client, "v2", layers=pair.patterns("v2"))
    pair.get(client, "v2")
    pair.get(client, "v1")


def test_what_is_damaged_is_never_used(pair):
    client = pair.client()
    pair.get(client, "v1")
    damage(pair.output, pair.random)
    pair.get(client, pair.random.choice(["v1", "v2"]))
    damage(pair.output, pair.random)
    version = pair.random.choice(["v1", "v2"])
    pair.get(client, version, layers=pair.patterns(version))
    damage(pair.output, pair.random)
    pair.get(client, "v2")


def check(got: GetResult, source: Path, layers: object) -> None:
    """Compare what a get wrote with the files that were pushed."""
    if not layers:
        wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
        assert {Path(file.path) for file in got.files} == wanted
    for file in got.files:
        written, pushed = got.output / file.path, source / file.path
        if not layers or file.complete:
            assert written.read_bytes() == pushed.read_bytes(), file.path
    if layers:
        check_tensors(got, source, layers)


def check_tensors(got: GetResult, source: Path, layers: list[str]) -> None:
    """Compare tensor by tensor: all that were asked for, and else only what is tied to them."""
    for path in source.rglob("*"):
        tensors = tensors_of(path)
        wanted = {name for name in tensors if any(matches(name, p) for p in layers)}
        written = got.output / path.relative_to(source)
        if tensors:
            present = written.relative_to(got.output) in {Path(f.path) for f in got.files}
            assert present == bool(wanted), written
        found = tensors_of(written) if wanted else {}
        assert wanted <= found.keys(), written
        storages = {tensors[name].untyped_storage().data_ptr() for name in wanted}
        for name, tensor in found.items():
            assert (tensor.dtype, tensor.shape) == (tensors[name].dtype, tensors[name].shape)
            assert raw(tensor) == raw(tensors[name]), name
            assert name in wanted or tensors[name].untyped_storage().data_ptr() in storages


def tensors_of(path: Path) -> Mapping[str, torch.Tensor]:
    """Read a weight file by its own library."""
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix != ".pt":
        return {}
    held = torch.load(path, weights_only=True)
    if "state" not in held:
        return held
    assert (held["epoch"], held["note"]) == (3, "kept")
    return {f"state.{name}": tensor for name, tensor in held["state"].items()}


def matches(name: str, pattern: str) -> bool:
    """Say whether a pattern of ``PATTERNS`` selects a tensor, told anew and simply."""
    if pattern == "*.weight":
        return name.endswith(".weight")
    if pattern == "encoder.layer.[0-2]":
        return any(matches(name, f"encoder.layer.{n}") for n in range(3))
    return f".{pattern}." in f".{name}."


def bytes_not_in(client: Registry, model_id: str, version: str, other: str) -> int:
    """Return the size of a version's chunks that another does not hold."""
    chunks = {c.digest: c.size for f in client.open(model_id, version).files for c in f.chunks}
    held = {c.digest for f in client.open(model_id, other).files for c in f.chunks}
    return sum(size for digest, size in chunks.items() if digest not in held)


def structure_size(client: Registry, model_id: str, version: str) -> int:
    """Return the size of what must be read before parts of files can be planned."""
    files = client.open(model_id, version).files
    parts = sum(part.size for file in files for part in file.structure)
    return parts + sum(file.size for file in files if file.path.endswith(".index.json"))


def damage(folder: Path, random: Random) -> None:
    """Damage some files, most of them so that their times and sizes do not show it."""
    for path in sorted(files_of(folder)):
        if random.random() < 0.6:
            random.choice([flip, truncate, replace, delete, make_link])(path, random)


def files_of(folder: Path) -> Iterator[Path]:
    return (p for p in folder.rglob("*") if p.is_file() and ".ai-model" not in p.parts)


def flip(path: Path, random: Random) -> None:
    before, data = path.stat(), bytearray(path.read_bytes())
    for _ in range(3 if data else 0):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def truncate(path: Path, random: Random) -> None:
    os.truncate(path, random.randint(0, path.stat().st_size))


def replace(path: Path, random: Random) -> None:
    before = path.stat()
    path.write_bytes(random.randbytes(min(before.st_size, 300_000)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def delete(path: Path, random: Random) -> None:
    path.unlink()


def make_link(path: Path, random: Random) -> None:
    other = path.with_name(f"kept-{path.name}")
    shutil.move(path, other)
    path.symlink_to(other)
