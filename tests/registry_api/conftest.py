"""A real API process's worth of service in a thread, on a real Postgres and a local store."""

import hashlib
import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
import uvicorn
from sqlalchemy import Engine, text

from ai_model_format.chunks import plan_chunks
from ai_model_format.digest import digest_of
from ai_model_format.formats.detect import index_file
from ai_model_format.manifest import Chunk, File, Manifest
from ai_model_format.wire import TokenRequest
from registry_api.access import Caller
from registry_api.app import create_app
from registry_api.catalog import tokens
from registry_api.db.session import open_engine, transaction
from registry_api.settings import Settings

OPERATOR = Caller(None, "operator", "admin", ("*",))


@dataclass
class Service:
    """A running service and ways to speak to it."""

    url: str
    settings: Settings
    clients: list[httpx.Client] = field(default_factory=list)

    def token(self, role: str = "admin", models: list[str] | None = None) -> str:
        """Make a token and return its secret."""
        engine = open_engine(self.settings.database_url, pool_size=1)
        try:
            with transaction(engine) as session:
                request = TokenRequest(name=f"a {role}", role=role, models=models or ["*"])
                return tokens.create(session, OPERATOR, request).token
        finally:
            engine.dispose()

    def client(self, role: str = "admin", models: list[str] | None = None) -> httpx.Client:
        """Return a client with a new token."""
        return self.anybody(Authorization=f"Bearer {self.token(role, models)}")

    def anybody(self, **headers: str) -> httpx.Client:
        """Return a client with these headers and no token."""
        client = httpx.Client(base_url=self.url, headers=headers, timeout=60)
        self.clients.append(client)
        return client


@contextmanager
def serving(settings: Settings) -> Iterator[Service]:
    """Run the API in a thread on a free port."""
    config = uvicorn.Config(
        create_app(settings), host="127.0.0.1", port=0, log_level="warning", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    service = Service(f"http://127.0.0.1:{port}", settings)
    try:
        yield service
    finally:
        for client in service.clients:
            client.close()
        server.should_exit = True
        thread.join()


@pytest.fixture
def settings(database: str, tmp_path: Path) -> Settings:
    """Settings of a service on a new database and a new local store."""
    return Settings(database_url=database, local_path=tmp_path / "objects", database_pool_size=10)


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    """A running service."""
    with serving(settings) as running:
        yield running


@pytest.fixture
def api(service: Service) -> httpx.Client:
    """An admin's client of a running service."""
    return service.client("admin")


def make_safetensors(**tensors: bytes) -> bytes:
    """Return a safetensors file of U8 vectors."""
    header, position = {}, 0
    for name, data in tensors.items():
        place = [position, position + len(data)]
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": place}
        position += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensors.values())


def sha256(data: bytes) -> str:
    """Return the digest of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def send(api: httpx.Client, push: dict, uploads: list[dict], data: dict[str, bytes]) -> None:
    """Open uploads and send all their parts; ``data`` by digest."""
    answer = api.post(f"/v1/pushes/{push['push_id']}/uploads", json={"uploads": uploads})
    assert answer.status_code == 200, answer.text
    for upload in answer.json()["uploads"]:
        for target in upload["targets"]:
            part = data[upload["digest"]][target["offset"] : target["offset"] + target["size"]]
            put = httpx.put(target["url"], content=part, headers=target["headers"])
            assert put.status_code in (200, 204), put.text


def push_plain(
    api: httpx.Client, model_id: str, version: str, files: dict[str, bytes], **more: object
) -> httpx.Response:
    """Push plain files by REST alone and return the answer to ``finish``."""
    listed = [{"path": p, "size": len(d), "sha256": digest_of(d)} for p, d in files.items()]
    begun = api.post(
        f"/v1/models/{model_id}/pushes", json={"version": version, "files": listed, **more}
    )
    if begun.status_code not in (200, 201) or begun.json()["state"] != "open":
        return begun
    push = begun.json()
    by_digest = {digest_of(files[m["path"]]): m["path"] for m in push["missing"]}
    uploads = [
        {
            "digest": digest,
            "size": len(files[path]),
            "contents": [{"path": path, "first_chunk": 0, "last_chunk": 1}],
        }
        for digest, path in by_digest.items()
    ]
    if uploads:
        send(api, push, uploads, {digest: files[path] for digest, path in by_digest.items()})
    return api.post(f"/v1/pushes/{push['push_id']}/finish")


def fail_commits(engine: Engine, table: str) -> None:
    """Have Postgres refuse, at the commit, every transaction that adds a row to a table."""
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql"
                " AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$"
            )
        )
        connection.execute(
            text(
                f"CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON {table}"
                " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
            )
        )


def wait_until(check: Callable[[], bool], what: str) -> None:
    """Wait until something becomes true."""
    for _ in range(600):
        if check():
            return
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen")


def make_manifest(files: dict[str, bytes]) -> Manifest:
    """Return the manifest of files, as a client makes it."""
    return Manifest(tuple(_file_of(path, files[path]) for path in sorted(files)))


def begin_manifest(
    api: httpx.Client,
    model_id: str,
    version: str,
    files: dict[str, bytes],
    *,
    manifest: Manifest | None = None,
    **more: object,
) -> httpx.Response:
    """Begin to push as the client does."""
    value = json.loads((manifest or make_manifest(files)).to_bytes())
    return api.post(
        f"/v1/models/{model_id}/pushes", json={"version": version, "manifest": value, **more}
    )


def push_manifest(
    api: httpx.Client,
    model_id: str,
    version: str,
    files: dict[str, bytes],
    *,
    manifest: Manifest | None = None,
    **more: object,
) -> tuple[dict, httpx.Response]:
    """Push as the client does: only what is missing, packed into one object a file.

    Returns:
        The answers to begin and to finish.
    """
    manifest = manifest or make_manifest(files)
    begun = begin_manifest(api, model_id, version, files, manifest=manifest, **more)
    if begun.status_code not in (200, 201) or begun.json()["state"] != "open":
        return begun.json(), begun
    push = begun.json()
    uploads, data = [], {}
    for missing in push["missing"]:
        file = next(f for f in manifest.files if f.path == missing["path"])
        starts = file.chunk_starts
        packed = b"".join(
            files[file.path][starts[first] : starts[last]] for first, last in missing["ranges"]
        )
        data[digest_of(packed)] = packed
        contents = [
            {"path": file.path, "first_chunk": first, "last_chunk": last}
            for first, last in missing["ranges"]
        ]
        upload = {"digest": digest_of(packed), "size": len(packed), "contents": contents}
        if upload["digest"] not in [u["digest"] for u in uploads]:
            uploads.append(upload)
    if uploads:
        send(api, push, uploads, data)
    return push, api.post(f"/v1/pushes/{push['push_id']}/finish")


def _file_of(path: str, data: bytes) -> File:
    format, index = index_file(lambda start, end: data[start:end], len(data))
    spans = plan_chunks(len(data), [*(t.range for t in index.tensors), *index.structure])
    return File(
        path=path,
        size=len(data),
        sha256=digest_of(data),
        media_type=format.media_type,
        format=format.name,
        chunks=tuple(Chunk(digest_of(data[s.start : s.end]), s.size) for s in spans),
        tensors=tuple(
            replace(tensor, digest=digest_of(data[tensor.start : tensor.end]))
            for tensor in index.tensors
        ),
        structure=tuple(index.structure),
    )
