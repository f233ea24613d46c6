"""What a request wants to push, checked as far as that goes without the database. Pure."""

from dataclasses import dataclass
from typing import Any

from ai_model_format.digest import Digest
from ai_model_format.manifest import (
    MAX_FILE_SIZE,
    InvalidManifest,
    Manifest,
    canonical_json,
    manifest_digest,
)
from ai_model_format.manifest_reader import manifest_of_json
from ai_model_format.wire import (
    MAX_METADATA_BYTES,
    FieldError,
    Metadata,
    PlainFile,
    PushRequest,
)
from registry_api.errors import (
    InvalidManifestSent,
    InvalidRequest,
    PayloadTooLarge,
)
from registry_api.push.chunks import hashing_cost
from registry_api.push.schemas import problem_of_schema

MAX_HASHING_COST = 4
"""Times a file's size that hashing its long tensors may take; views of one storage overlap."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a push is of: a manifest, or plain files that the service will index.

    Attributes:
        digest: names it, so that the same push is known again.
        manifest: what the client has indexed; ``None`` for plain files.
        manifest_bytes: its canonical bytes.
        files: plain files, sorted by path; empty beside a manifest.
        size: bytes of all files.
    """

    digest: Digest
    manifest: Manifest | None
    manifest_bytes: bytes | None
    files: tuple[PlainFile, ...]
    size: int


def read_content(request: PushRequest) -> Content:
    """Check and return what a request wants to push. Pure.

    Raises:
        InvalidRequest: neither or both of ``manifest`` and ``files``, a path twice, files too
            large together, or metadata with what is no JSON Schema.
        InvalidManifestSent: the manifest breaks a rule.
        PayloadTooLarge: the metadata is too large.
    """
    _check_metadata(request.metadata)
    if (request.manifest is None) == (request.files is None):
        raise InvalidRequest("send either 'manifest' or 'files'")
    if request.manifest is not None:
        return _read_manifest(request.manifest)
    files = tuple(sorted(request.files or [], key=lambda file: file.path))
    _check_paths(files)
    listed = canonical_json([file.model_dump() for file in files])
    size = sum(file.size for file in files)
    if size > MAX_FILE_SIZE:
        raise InvalidRequest("files: they are too large together")
    return Content(manifest_digest(listed), None, None, files, size)


def _read_manifest(value: dict[str, Any]) -> Content:
    try:
        manifest, data = manifest_of_json(value)
    except InvalidManifest as error:
        raise InvalidManifestSent(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidManifestSent(f"manifest: {error}") from error
    for file in manifest.files:
        if hashing_cost(file) > MAX_HASHING_COST * file.size:
            raise InvalidManifestSent(f"file {file.path!r}: its tensors overlap too much")
    if manifest.size > MAX_FILE_SIZE:
        raise InvalidManifestSent("manifest: the files are too large together")
    return Content(manifest_digest(data), manifest, data, (), manifest.size)


def _check_metadata(metadata: Metadata) -> None:
    if len(metadata.model_dump_json()) > MAX_METADATA_BYTES:
        raise PayloadTooLarge(f"the metadata is larger than {MAX_METADATA_BYTES} bytes as JSON")
    for name in ("input_schema", "output_schema"):
        schema = getattr(metadata, name)
        if schema is None:
            continue
        problem = problem_of_schema(schema)
        if problem is not None:
            raise InvalidRequest(
                f"metadata.{name} is not a JSON Schema: {problem}",
                [FieldError(field=f"metadata.{name}", message=problem)],
            )


def _check_paths(files: tuple[PlainFile, ...]) -> None:
    paths = {file.path for file in files}
    if len(paths) < len(files):
        raise InvalidRequest("files: a path stands there twice")
    for path in paths:
        parts = path.split("/")
        if any("/".join(parts[:depth]) in paths for depth in range(1, len(parts))):
            raise InvalidRequest(f"files: {path!r} lies below a file")
