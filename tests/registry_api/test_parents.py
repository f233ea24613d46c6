"""What a version says it was made from is a version, and stays the one it was."""

import pytest

from tests.registry_api.conftest import Service, push_plain


def parents_of(api, version: str) -> list[dict]:
    return api.get(f"/v1/models/tuned/versions/{version}").json()["metadata"]["parents"]


@pytest.mark.parametrize("ref", ["v1", "stable", "latest", "digest"])
def test_a_parent_is_pinned_to_the_version_it_means_now(api, ref: str) -> None:
    push_plain(api, "base", "v1", {"a": b"1"}, alias="stable")
    if ref == "digest":
        ref = api.get("/v1/models/base/versions/v1").json()["manifest_digest"]
    parent = {"model_id": "base", "version": ref}
    pushed = push_plain(api, "tuned", "v1", {"a": b"2"}, metadata={"parents": [parent]})
    assert pushed.status_code == 200, pushed.text
    push_plain(api, "base", "v2", {"a": b"3"}, alias="stable")
    assert parents_of(api, "v1") == [{"model_id": "base", "version": "v1"}]


def test_the_same_push_again_by_an_alias_has_the_same_metadata(api) -> None:
    push_plain(api, "base", "v1", {"a": b"1"}, alias="stable")
    metadata = {"parents": [{"model_id": "base", "version": "stable"}]}
    push_plain(api, "tuned", "v1", {"a": b"2"}, metadata=metadata)
    again = push_plain(api, "tuned", "v1", {"a": b"2"}, metadata=metadata).json()
    assert (again["created"], again["notes"]) == (False, [])


def test_a_parent_that_is_not_there_or_not_readable_is_named(service: Service, api) -> None:
    push_plain(api, "secret/base", "v1", {"a": b"1"})
    narrow = service.client("writer", ["tuned"])
    for client, model_id, version in (
        (api, "secret/base", "v9"),
        (api, "nowhere", "v1"),
        (narrow, "secret/base", "v1"),
    ):
        parents = [{"model_id": "secret/base", "version": "v1"}] if client is api else []
        parents.append({"model_id": model_id, "version": version})
        refused = push_plain(client, "tuned", "v1", {"a": b"2"}, metadata={"parents": parents})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
        assert refused.json()["errors"][0]["field"] == f"metadata.parents.{len(parents) - 1}"
