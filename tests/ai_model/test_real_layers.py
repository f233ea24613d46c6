"""Every real file whose format is covered: any group of its layers costs little but its bytes.

What is fetched is counted where it cannot be told otherwise: a proxy sees each range.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ai_model import Registry
from ai_model_format.manifest import Tensor
from tests.ai_model.faulty_proxy import FaultyProxy, faulty_proxy
from tests.real_files_catalog import CATALOG

COVERED = [
    name
    for name, file in CATALOG.items()
    if file.member.endswith((".safetensors", ".pt", ".bin")) and name != "resemblyzer"  # no zip
]
RANGE = re.compile(r"bytes=(\d+)-(\d+)")


def groups_of(tensors: tuple[Tensor, ...]) -> list[str]:
    """Return the names of the layers where the tensors' names part, largest first."""
    names = [tensor.name.split(".") for tensor in tensors]
    shared = sum(
        1 for _ in takewhile(lambda column: len({*column}) == 1, zip(*names, strict=False))
    )
    sizes: dict[str, int] = {}
    for tensor, name in zip(tensors, names, strict=True):
        group = ".".join(name[: shared + 1])
        sizes[group] = sizes.get(group, 0) + tensor.range.size
    return sorted(sizes, key=lambda group: -sizes[group])


def fetched_bytes(proxy: FaultyProxy) -> int:
    """Return the size of all ranges of objects that were asked for."""
    found = [
        RANGE.fullmatch(headers["range"])
        for method, path, headers in proxy.seen
        if method == "GET" and path.startswith("/v1/objects/")
    ]
    return sum(int(match[2]) - int(match[1]) + 1 for match in found if match)


def leaves(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from leaves(member)
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from leaves(member)


def load(path) -> list[torch.Tensor]:
    if path.suffix == ".safetensors":
        return list(load_file(path).values())
    return list(leaves(torch.load(path, weights_only=True, map_location="cpu")))


@pytest.fixture
def proxy(registry_server) -> Iterator[FaultyProxy]:
    """A proxy that breaks nothing and remembers what was asked."""
    with faulty_proxy(registry_server.endpoint) as proxy:
        yield proxy


@pytest.mark.parametrize("name", COVERED)
def test_groups_of_layers(name, real_file, registry_server, new_client, proxy, model_id, tmp_path):
    path = real_file(name)
    new_client(registry_server).push(path, model_id, "v1")
    version = new_client(registry_server).open(model_id)
    tensors = version.files[0].tensors
    manifest_size = len(version.manifest.to_bytes())
    groups = groups_of(tensors)
    assert len(groups) > 1
    for group in dict.fromkeys([*groups[:2], groups[-1]]):
        client: Registry = new_client(registry_server, endpoint=proxy.endpoint)
        proxy.seen.clear()
        out = tmp_path / group
        got = client.get(model_id, "v1", layers=group, weights_only=True, output=out)
        chosen = [t for t in tensors if f".{group}." in f".{t.name}."]
        selected = sum(span.size for span in {t.range for t in chosen})
        limit = selected * 1.02 + 64 * 1024 + manifest_size
        assert 0 < selected <= fetched_bytes(proxy) <= limit, group
        assert got.bytes_fetched <= limit
        assert len(load(out / path.name)) == len(chosen)
        arrays = client.load(model_id, "v1", layers=group, framework="torch")
        assert arrays.keys() == {tensor.name for tensor in chosen}
