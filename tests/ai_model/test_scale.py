"""Work grows with the number of tensors and no faster: calls are counted, not seconds."""

import cProfile
import json
import pstats
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ai_model.get.outputs import make_output
from ai_model.get.plan import pieces_of, plan_requests, runs_of
from ai_model.get.select import make_selection, select
from ai_model.push.plan import plan_objects
from ai_model_format.chunks import plan_chunks
from ai_model_format.digest import digest_of
from ai_model_format.formats.detect import index_file
from ai_model_format.layers import layer_tree
from ai_model_format.manifest import Chunk, File, Manifest
from ai_model_format.manifest_reader import parse_manifest
from ai_model_format.manifest_rules import check_manifest
from registry_api.push.chunks import Location, lay_out, missing_chunks
from tests.services.proxies import running_wire

FEW, MANY = 500, 4000
TENSOR = 64
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "clients" / "sparse.py"


def header_of(count: int, each: int) -> bytes:
    entries = {
        f"model.layers.{n // 90}.experts.{n % 90}.weight": {
            "dtype": "U8",
            "shape": [each],
            "data_offsets": [n * each, (n + 1) * each],
        }
        for n in range(count)
    }
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def described(data: bytes, size: int) -> File:
    """Index a file; each chunk gets a digest made from its place, as if it had been hashed."""
    format, index = index_file(lambda start, end: data[start:end], size)
    borders = [*(tensor.range for tensor in index.tensors), *index.structure, *index.borders]
    ranges = plan_chunks(size, borders)
    digests = {span: digest_of(b"%d" % span.start) for span in ranges}
    return File(
        path="m",
        size=size,
        sha256=digest_of(b"whole"),
        media_type=format.media_type,
        format=format.name,
        chunks=tuple(Chunk(digests[span], span.size) for span in ranges),
        tensors=tuple(replace(t, digest=digests[t.range]) for t in index.tensors),
        structure=tuple(index.structure),
    )


class Model:
    """A safetensors file of so many small tensors, and what is done with it."""

    def __init__(self, count: int) -> None:
        self.data = header_of(count, TENSOR) + bytes(count * TENSOR)
        self.file = described(self.data, len(self.data))
        self.manifest = Manifest((self.file,))
        self.bytes = self.manifest.to_bytes()
        self.every_third = [(n, n + 1) for n in range(0, len(self.file.chunks), 3)]

    def index(self) -> None:
        described(self.data, len(self.data))

    def write_and_read_manifest(self) -> None:
        parsed = parse_manifest(self.manifest.to_bytes())
        check_manifest(parsed)

    def plan_push(self) -> None:
        plan_objects(self.manifest, {"m": self.every_third})

    def ask_what_is_missing(self) -> None:
        known = {chunk.digest for chunk in self.file.chunks[::2]}
        missing_chunks(self.manifest, known.__contains__, [])

    def lay_out(self) -> None:
        starts = self.file.chunk_starts
        places = {
            chunk.digest: [Location(n % 3, start), Location(7, start)]
            for n, (chunk, start) in enumerate(zip(self.file.chunks, starts, strict=False))
        }
        lay_out(self.file, places)

    def layers(self) -> None:
        layer_tree((t.name, t.dtype, t.range.size) for t in self.file.tensors)

    def plan_get(self) -> None:
        selection = make_selection(
            layers=["experts.[0-40]", "layers.1"], exclude="experts.7", files=(), weights_only=False
        )
        chosen = select(self.manifest, selection, {})
        outputs = [make_output(one, lambda _path, a, b: self.data[a:b]) for one in chosen]
        runs = [(self.file.sha256, self.file.size, 0, self.file.size)]
        plan_requests(pieces_of(outputs), {"m": runs_of(self.file, runs)}, connections=8)

    def plan_whole_get(self) -> None:
        chosen = select(
            self.manifest, make_selection(layers=(), exclude=(), files=(), weights_only=False), {}
        )
        pieces = pieces_of([make_output(one, lambda *_: b"") for one in chosen])
        scattered = [
            (digest_of(b"%d" % (n % 5)), self.file.size, start, chunk.size)
            for n, (chunk, start) in enumerate(
                zip(self.file.chunks, self.file.chunk_starts, strict=False)
            )
        ]
        plan_requests(pieces, {"m": runs_of(self.file, scattered)}, connections=8)


@pytest.fixture(scope="module")
def models() -> tuple[Model, Model]:
    return Model(FEW), Model(MANY)


def calls(work: Callable[[], object]) -> int:
    """Return how many functions were called, built-in ones too."""
    work()  # so that what is cached is cached for all
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


WORKS = [name for name, value in vars(Model).items() if callable(value) and name[0] != "_"]


@pytest.mark.parametrize("work", WORKS)
def test_eight_times_the_tensors_take_eight_times_the_calls(work, models):
    few, many = (calls(getattr(model, work)) for model in models)
    assert few > FEW / 10  # it did something
    assert many < few * (MANY / FEW) * 1.3


def test_a_torch_file_is_indexed_in_as_many_calls_as_it_has_tensors(tmp_path):
    counts = []
    for count in (FEW // 2, FEW * 2):
        names = (f"model.layers.{n // 9}.experts.{n % 9}.weight" for n in range(count))
        torch.save({name: torch.zeros(2) for name in names}, tmp_path / "m.pt")
        data = (tmp_path / "m.pt").read_bytes()
        read = lambda start, end, data=data: data[start:end]  # noqa: E731
        counts.append(calls(lambda read=read, size=len(data): index_file(read, size)))
    assert counts[1] < counts[0] * 4 * 1.3


def test_a_terabyte_of_90_000_tensors_is_planned_in_bounded_memory(tmp_path):
    """All of planning in a process of its own, on a sparse file: nothing is hashed."""
    each = 10**12 // 90_000
    head = header_of(90_000, each)
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(head)
        file.truncate(len(head) + each * 90_000)
    program = (
        "import runpy, sys, re; sys.argv = ['sparse', sys.argv[1], 'model.layers.[0-99]'];"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__');"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model.safetensors")],
        capture_output=True, text=True, check=False, cwd=SCRIPT.parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, peak_kib = done.stdout.splitlines()
    counts = json.loads(said)["counts"]
    assert int(peak_kib) * 1024 < 500e6
    assert (counts["tensors"], counts["chunks"]) == (90_000, 90_001)
    assert counts["manifest bytes compressed"] < counts["manifest bytes"] / 2


def test_manifests_travel_compressed(registry_server, new_client, model_id, tmp_path):
    count = 3000
    path = tmp_path / "m.safetensors"
    path.write_bytes(header_of(count, 16) + model_id.encode()[:16] * count)
    with running_wire(registry_server.endpoint) as wire:
        wire.left = 10**12
        new_client(registry_server, endpoint=wire.url).push(path, model_id, "v1")
        pushed = 10**12 - wire.left
        version = new_client(registry_server, endpoint=wire.url).open(model_id, "v1")
        wire.left = 10**12
        size = len(version.manifest.to_bytes())
        got = 10**12 - wire.left
    assert size > 500_000
    assert got < size / 2
    assert pushed < path.stat().st_size + size / 2 + 20_000
