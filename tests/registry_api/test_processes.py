"""API and worker as processes of a team: killed at any moment, another goes on."""

import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
from sqlalchemy import Engine, text

from registry_api.db.session import transaction
from registry_api.parts import open_parts
from registry_api.push import queries, verify
from registry_api.push.sweep import drop_expired, drop_orphans
from registry_api.settings import Settings
from tests.registry_api.conftest import (
    begin_manifest,
    make_manifest,
    send,
    serving,
    sha256,
    wait_until,
)


def environment(settings: Settings) -> dict[str, str]:
    return {
        **os.environ,
        "AI_MODEL_DATABASE_URL": settings.database_url,
        "AI_MODEL_LOCAL_PATH": str(settings.local_path),
        "AI_MODEL_VERIFY_INLINE_BYTES": str(2**40),
    }


def run(settings: Settings, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "registry_api", *arguments]
    return subprocess.Popen(
        command,
        env=environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def api_process(
    settings: Settings, token: str, *arguments: str
) -> Iterator[tuple[subprocess.Popen, httpx.Client]]:
    process = run(settings, "api", "--port", "0", *arguments)
    try:
        for line in process.stderr:
            if found := re.search(r"running on (http://\S+)", line):
                break
        reader = threading.Thread(target=process.stderr.read)
        reader.start()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=found[1], headers=headers, timeout=60) as client:
            yield process, client
    finally:
        process.kill()
        reader.join()
        process.communicate()


def test_kill_9_while_verifying(settings: Settings, engine: Engine) -> None:
    made = run(settings, "create-token", "--role", "writer")
    token = made.communicate(timeout=60)[0].strip()
    assert token.startswith("aim_")
    data = os.urandom(1024 * 1024) * 256
    manifest = make_manifest({"m": data})

    def state() -> str | None:
        with engine.connect() as connection:
            return connection.scalar(text("SELECT state FROM push"))

    with api_process(settings, token) as (process, api):
        begun = begin_manifest(api, "net", "v1", {}, manifest=manifest).json()
        chunks = len(manifest.files[0].chunks)
        contents = [{"path": "m", "first_chunk": 0, "last_chunk": chunks}]
        upload = {"digest": sha256(data), "size": len(data), "contents": contents}
        send(api, begun, [upload], {sha256(data): data})

        def finish() -> None:
            with suppress(httpx.HTTPError):
                api.post(f"/v1/pushes/{begun['push_id']}/finish")

        finishing = threading.Thread(target=finish)
        finishing.start()
        wait_until(lambda: state() != "open", "verifying")
        process.send_signal(signal.SIGKILL)
        process.wait()
        finishing.join()
    assert state() == "verifying"

    worker = run(settings, "worker")
    try:
        with api_process(settings, token) as (_, api):
            assert api.get("/v1/models/net").status_code in (200, 404)
            wait_until(lambda: state() != "verifying", "the worker taking over")
            info = api.get(f"/v1/pushes/{begun['push_id']}").json()
            assert (info["state"], info["created"]) == ("ready", True)
            last = api.get("/v1/models/net/versions/v1/files/m", headers={"Range": "bytes=-9"})
            assert last.content == data[-9:]
    finally:
        worker.send_signal(signal.SIGTERM)
        _, errors = worker.communicate(timeout=60)
    assert worker.returncode == 0, errors


def test_eight_processes_start_at_once_on_an_empty_database(
    empty_database: str, tmp_path: Path
) -> None:
    settings = Settings(database_url=empty_database, local_path=tmp_path / "objects")
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        processes = [api_process(settings, "none", "--migrate") for _ in range(8)]
        apis = [api for _, api in pool.map(stack.enter_context, processes)]
        assert [api.get("/v1/ready").json() for api in apis] == [{"status": "ok"}] * 8
        token = run(settings, "create-token").communicate(timeout=60)[0].strip()
        who = {"Authorization": f"Bearer {token}"}
        assert {api.get("/v1/whoami", headers=who).json()["role"] for api in apis} == {"admin"}


def test_expired_pushes_are_swept(settings: Settings, engine: Engine) -> None:

    with serving(settings) as service:
        api = service.client()
        data = b"expires"
        begun = begin_manifest(api, "net", "v1", {"m": data}).json()
        contents = [{"path": "m", "first_chunk": 0, "last_chunk": 1}]
        upload = {"digest": sha256(data), "size": len(data), "contents": contents}
        send(api, begun, [upload], {sha256(data): data})
        parts = open_parts(settings)
        assert drop_expired(parts) == 0
        with engine.begin() as connection:
            connection.execute(text("UPDATE push SET expires_at = now() - interval '1 second'"))
        assert drop_expired(parts) == 1
        parts.close()
        assert api.get(f"/v1/pushes/{begun['push_id']}").status_code == 404
        assert [p for p in settings.local_path.rglob("*") if p.is_file()] == []


def test_uploads_of_a_process_that_died_are_swept(settings: Settings) -> None:
    with serving(settings) as service:
        api = service.client()
        begun = begin_manifest(api, "net", "v1", {"m": b"alive"}).json()
        contents = [{"path": "m", "first_chunk": 0, "last_chunk": 1}]
        alive = {"digest": sha256(b"alive"), "size": 5, "contents": contents}
        send(api, begun, [alive], {sha256(b"alive"): b"alive"})
        now = open_parts(settings)
        lost = now.store.begin_upload(sha256(b"lost"), 4, in_place=True)
        assert drop_orphans(now) == 0
        later = replace(now, settings=settings.model_copy(update={"push_expires_s": -60}))
        assert drop_orphans(later) == 1
        keys = [key for key, _ in now.store.list_uploads()]
        assert len(keys) == 1
        assert lost.key not in keys
        now.close()


def test_a_claimed_digest_cannot_lock_a_push(settings: Settings) -> None:
    """Its author is free to choose one that begins as the id of the push."""
    push_id = uuid.uuid4()
    parts = open_parts(settings)
    with transaction(parts.engine) as session:
        queries.lock_digest(session, "sha256:" + push_id.hex[:16] + "0" * 48)
        with verify._only_here(parts, push_id) as is_mine, verify._only_here(parts, push_id) as two:
            assert (is_mine, two) == (True, False)
    parts.close()
