"""``find`` and ``lineage`` from Python."""

from pathlib import Path

import pytest

from ai_model.errors import UsageError


def test_the_same_from_python(registry_server, new_client, model_id: str, tmp_path: Path) -> None:
    client = new_client(registry_server)
    (tmp_path / "w").write_bytes(model_id.encode())
    parameters = {"optimizer": {"lr": 0.1, "name": "1"}, "note": 'say "=" ü'}
    dataset = {"id": model_id, "version": "7"}
    first = client.push(
        tmp_path / "w",
        model_id,
        "v1",
        metadata={"parameters": parameters, "dataset": dataset, "tags": {"a": "=b"}},
    )
    parents = [{"model_id": model_id, "version": "latest"}]
    client.push(tmp_path / "w", model_id, "v2", metadata={"parents": parents})

    def found(**facts) -> list[str]:
        return [version.version for version in client.find(**facts)]

    assert found(parameters=parameters, dataset_id=model_id, tags={"a": "=b"}) == ["v1"]
    assert found(parameters={"optimizer.lr": 1e-1}, dataset_id=model_id) == ["v1"]
    assert found(parameters={"optimizer": {"lr": 0.2}}, dataset_id=model_id) == []
    assert found(dataset_id=model_id, dataset_version="7") == ["v1"]
    assert found(prefix=model_id) == ["v2", "v1"]
    assert found(sha256=first.files[0].sha256) == ["v2", "v1"]
    assert found(sha256=first.manifest_digest.removeprefix("sha256:")) == ["v2", "v1"]
    with pytest.raises(UsageError):
        found(sha256="sha256:abc")

    lineage = client.open(model_id, "v2").lineage(direction="up")
    assert [(node.version, node.depth) for node in lineage.nodes] == [("v1", -1), ("v2", 0)]
    assert lineage == client.lineage(model_id, "latest", direction="up")
    assert client.lineage(model_id, "v1", direction="up").edges == []
