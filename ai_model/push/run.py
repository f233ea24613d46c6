"""Publish a file or a directory as a version. Kill it anywhere; run again, it goes on."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ai_model.api import Api, checked, invalid_fields
from ai_model.errors import FileChanged, NetworkError, ServiceProblem, UsageError, service_problem
from ai_model.progress import Meter, OnProgress
from ai_model.push.git import head_commit
from ai_model.push.index import build_manifest
from ai_model.push.plan import plan_objects
from ai_model.push.scan import LocalFile, Scan, scan
from ai_model.push.shards import check_sharded_models
from ai_model.push.upload import Uploader
from ai_model.results import PushedFile, PushResult
from ai_model_format import names, wire
from ai_model_format.manifest import InvalidManifest, Manifest, manifest_digest
from ai_model_format.manifest_rules import check_manifest

KEPT = "What was sent is kept; run the same push again to go on."
_ROUNDS = 6
_WAIT_S = 20
_BEGIN_ANEW = frozenset(
    {"upload_conflict", "upload_incomplete", "upload_not_found", "push_not_found", "push_not_open"}
)
"""Answers after which the push is begun again: what was sent stays, the rest is asked for anew."""


def push(
    api: Api,
    path: Path,
    *,
    model_id: str,
    version: str,
    metadata: wire.Metadata | Mapping[str, Any] | None,
    alias: str | None,
    on_progress: OnProgress | None,
) -> PushResult:
    """Scan, hash, send what is missing, and wait until the version is there.

    Raises:
        AiModelError: see ``Registry.push``.
    """
    started = time.monotonic()
    checked(names.parse_model_id, model_id)
    described = _metadata(metadata, path)
    _check_request(version, alias)
    found = scan(path)
    manifest = build_manifest(found.files, on_progress=on_progress)
    _check(manifest)
    check_sharded_models(found.files, manifest)
    job = _Job(api, model_id, found, manifest, on_progress)
    end = job.publish(_request(version, manifest, described, alias))
    return _result(end, found, manifest, elapsed_s=time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _End:
    """How a push ended."""

    info: wire.PushInfo
    bytes_missing: int
    bytes_sent: int


class _Job:
    """One push, through as many rounds as it takes."""

    def __init__(
        self,
        api: Api,
        model_id: str,
        found: Scan,
        manifest: Manifest,
        on_progress: OnProgress | None,
    ) -> None:
        self._api = api
        self._model_id = model_id
        self._files = {file.path: file for file in found.files}
        self._manifest = manifest
        self._on_progress = on_progress
        self._bytes_sent = 0

    def publish(self, request: wire.PushRequest) -> _End:
        """Begin, send, finish; begin anew where another push got in the way.

        Raises:
            ServiceProblem: the service refuses.
        """
        missing = -1
        for left in reversed(range(_ROUNDS)):
            info = self._api.begin_push(self._model_id, request)
            missing = info.bytes_missing if missing < 0 else missing
            try:
                info = self._finish(self._send(info)) if info.state == "open" else info
                return _End(self._verified(info), missing, self._bytes_sent)
            except ServiceProblem as problem:
                if problem.code not in _BEGIN_ANEW or not left:
                    raise
        raise AssertionError  # the last round returns or raises

    def _send(self, info: wire.PushInfo) -> wire.PushInfo:
        missing = {item.path: item.ranges for item in info.missing}
        objects = plan_objects(self._manifest, missing)
        meter = Meter("upload", sum(planned.size for planned in objects), self._on_progress)
        uploader = Uploader(self._api, info.push_id, self._files, meter)
        try:
            uploader.send(objects)
        except NetworkError as error:
            error.way_out = KEPT
            raise
        except KeyboardInterrupt as error:
            error.add_note(KEPT)
            raise
        finally:
            self._bytes_sent += uploader.bytes_sent
        return info

    def _finish(self, info: wire.PushInfo) -> wire.PushInfo:
        return self._api.finish_push(info.push_id)

    def _verified(self, info: wire.PushInfo) -> wire.PushInfo:
        """Wait until the service has seen every byte.

        Raises:
            PushCorrupt: it saw others.
            FileChanged: and that is because a file changed.
        """
        meter = Meter("verify", info.bytes_total, self._on_progress)
        while info.state == "verifying":
            meter.add(info.bytes_verified - meter.done)
            info = self._api.push_info(info.push_id, wait_s=_WAIT_S)
        if info.state == "failed":
            self._check_unchanged()
            problem = info.problem.model_dump() if info.problem else {}
            raise service_problem(int(problem.get("status", 409)), problem)
        if info.state == "open":  # the service found that something is missing after all
            raise service_problem(409, {"code": "upload_incomplete"})
        return info

    def _check_unchanged(self) -> None:
        for local in self._files.values():
            if not _is_unchanged(local):
                raise FileChanged(local.source)


def _is_unchanged(local: LocalFile) -> bool:
    try:
        now = local.source.stat()
    except OSError:
        return False
    return (now.st_size, now.st_mtime_ns) == (local.size, local.mtime_ns)


def _metadata(given: wire.Metadata | Mapping[str, Any] | None, path: Path) -> wire.Metadata:
    """Return the metadata, with the git commit where it names none.

    It is that of the checkout which holds ``path``, else of the working directory.
    """
    try:
        metadata = wire.Metadata.model_validate(given or {})
    except ValidationError as error:
        raise invalid_fields(error) from error
    if metadata.git_commit is None:
        commit = head_commit(path if path.is_dir() else path.parent) or head_commit(Path())
        return metadata.model_copy(update={"git_commit": commit})
    return metadata


def _check_request(version: str, alias: str | None) -> None:
    """Refuse bad names before gigabytes are hashed."""
    checked(names.parse_version, version)
    if alias is not None:
        checked(names.parse_alias, alias)


def _check(manifest: Manifest) -> None:
    try:
        check_manifest(manifest)
    except InvalidManifest as error:
        raise UsageError(f"This cannot be a version: {error}.") from error


def _request(
    version: str, manifest: Manifest, metadata: wire.Metadata, alias: str | None
) -> wire.PushRequest:
    return wire.PushRequest(
        version=version,
        manifest=json.loads(manifest.to_bytes()),
        metadata=metadata,
        alias=alias,
    )


def _result(end: _End, found: Scan, manifest: Manifest, *, elapsed_s: float) -> PushResult:
    info = end.info
    return PushResult(
        model_id=info.model_id,
        version=info.version,
        manifest_digest=info.manifest_digest or manifest_digest(manifest.to_bytes()),
        created=info.created,
        bytes_total=manifest.size,
        bytes_sent=end.bytes_sent,
        bytes_already_there=manifest.size - end.bytes_missing,
        bytes_not_sent=max(manifest.size - end.bytes_sent, 0),
        files=tuple(
            PushedFile(file.path, file.size, file.sha256, file.format) for file in manifest.files
        ),
        elapsed_s=elapsed_s,
        notes=(*found.notes, *info.notes),
    )
