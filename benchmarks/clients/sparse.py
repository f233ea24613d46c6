"""Plan a model of 90,000 tensors in a sparse file of 1 TB: all that is done but moving bytes.

Hashing 1 TB is left out (it runs at the processor's speed, measured elsewhere): each chunk gets
a digest made from its place, so that no two are equal and planning has all its work.
"""

import gzip
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ai_model.get.outputs import make_output
from ai_model.get.plan import pieces_of, plan_requests, runs_of
from ai_model.get.select import make_selection, select
from ai_model.push.plan import plan_objects
from ai_model_format.chunks import plan_chunks
from ai_model_format.digest import digest_of
from ai_model_format.formats.detect import index_file
from ai_model_format.manifest import Chunk, File, Manifest, manifest_digest
from ai_model_format.manifest_reader import parse_manifest

steps: dict[str, float] = {}


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Do a step and keep its seconds."""
    began = time.perf_counter()
    value = work()
    steps[name] = time.perf_counter() - began
    return value


def described(path: Path) -> File:
    """Index a file and give it chunks, hashing nothing."""
    size = path.stat().st_size
    with path.open("rb") as file:

        def read(start: int, end: int) -> bytes:
            file.seek(start)
            return file.read(end - start)

        format, index = timed("index", lambda: index_file(read, size))
    borders = [tensor.range for tensor in index.tensors]
    ranges = timed(
        "cut into chunks", lambda: plan_chunks(size, [*borders, *index.structure, *index.borders])
    )
    digests = {span: digest_of(b"%d" % span.start) for span in ranges}
    tensors = tuple(
        replace(t, digest=digests.get(t.range) or digest_of(t.name.encode())) for t in index.tensors
    )
    chunks = tuple(Chunk(digests[span], span.size) for span in ranges)
    name, sha256 = "model.safetensors", digest_of(b"whole")
    return File(
        name, size, sha256, format.media_type, format.name, chunks, tensors, tuple(index.structure)
    )


def plan_get(manifest: Manifest, header: bytes, layers: str) -> int:
    """Plan a get up to its HTTP requests; return how many they are."""
    selection = make_selection(layers=layers, exclude=(), files=(), weights_only=False)
    chosen = select(manifest, selection, {})
    outputs = [make_output(one, lambda _path, a, b: header[a:b]) for one in chosen]
    file = manifest.files[0]
    layout = {file.path: runs_of(file, [(file.sha256, file.size, 0, file.size)])}
    return len(plan_requests(pieces_of(outputs), layout, connections=8))


def main(path: Path, layers: str) -> None:
    """Go through push planning and get planning."""
    manifest = Manifest((described(path),))
    data = timed("write the manifest", manifest.to_bytes)
    packed = timed("compress it", lambda: gzip.compress(data, 1))
    timed("digest it", lambda: manifest_digest(data))
    everything = {"model.safetensors": [(0, len(manifest.files[0].chunks))]}
    timed("plan a first push", lambda: plan_objects(manifest, everything))
    every_tenth = [(n, n + 1) for n in range(0, len(manifest.files[0].chunks), 10)]
    timed(
        "plan a push of a tenth", lambda: plan_objects(manifest, {"model.safetensors": every_tenth})
    )
    parsed = timed("read and check the manifest", lambda: parse_manifest(data))
    end = parsed.files[0].structure[-1].end
    with path.open("rb") as file:
        header = file.read(end)
    whole = timed("plan a whole get", lambda: plan_get(parsed, header, "*"))
    some = timed("plan a get of a tenth", lambda: plan_get(parsed, header, layers))
    counts = {
        "tensors": len(parsed.files[0].tensors),
        "chunks": len(parsed.files[0].chunks),
        "manifest bytes": len(data),
        "manifest bytes compressed": len(packed),
        "requests of a whole get": whole,
        "requests of a tenth": some,
    }
    print(json.dumps({"steps": steps, "counts": counts}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
