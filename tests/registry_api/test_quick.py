"""The short way for reads gives the answers of the ordinary one, good and bad."""

import pytest

from tests.registry_api.conftest import Service, push_plain, serving

QUESTIONS = ["/v1/models/team/net/versions/v1" + end for end in ("", "/manifest", "/layout")]
UNTRUE = {"date", "x-request-id"}
"""Headers that differ from answer to answer."""


@pytest.mark.parametrize("path", QUESTIONS)
def test_both_ways_answer_alike(settings, path, monkeypatch) -> None:
    with serving(settings.model_copy(update={"token_cache_s": 60})) as quick:
        token = quick.token()
        assert push_plain(bearer(quick, token), "team/net", "v1", {"a": b"x"}).json()["created"]
        short = [bearer(quick, token).get(path) for _ in range(2)][1]
    monkeypatch.setattr("registry_api.quick._found", lambda request: None)
    with serving(settings) as ordinary:
        whole = bearer(ordinary, token).get(path)
    assert short.status_code == whole.status_code == 200
    if not path.endswith("/layout"):  # whose signed URLs hold the time
        assert short.content == whole.content
    told = [{k: v for k, v in a.headers.items() if k not in UNTRUE} for a in (short, whole)]
    assert told[0].keys() == told[1].keys()


@pytest.mark.parametrize("end", ["", "/manifest", "/layout"])
def test_a_known_token_does_not_open_more(service: Service, end: str) -> None:
    writer = service.client("writer", ["team/net"])
    assert push_plain(writer, "team/net", "v1", {"a": b"x"}).json()["created"]
    for path, status in [
        ("team/net/versions/v1", 200),
        ("team/net/versions/v2", 404),
        ("team/net/versions/..", 422),
        ("Team/net/versions/v1", 422),
        ("other/net/versions/v1", 403),
    ]:
        told = writer.get(f"/v1/models/{path.replace('..', '%2e%2e')}{end}")
        assert told.status_code == status, told.text
    assert service.anybody().get(f"/v1/models/team/net/versions/v1{end}").status_code == 401


def test_only_the_short_way_spares_the_solving(service: Service, monkeypatch) -> None:
    """Else nothing would show that the short way is ever taken."""
    api = service.client()
    assert push_plain(api, "net", "v1", {"a": b"x"}).json()["created"]
    solved = []
    monkeypatch.setattr("fastapi.routing.solve_dependencies", solved.append)
    assert api.get("/v1/models/net/versions/v1").status_code == 200
    assert not solved


def bearer(service: Service, token: str):
    """Return a client that shows this token."""
    return service.anybody(Authorization=f"Bearer {token}")
