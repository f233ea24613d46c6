"""What the uploads of a push hold: runs of chunks of its files. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ai_model_format.digest import Digest
from ai_model_format.manifest import Chunk, Manifest
from ai_model_format.manifest_reader import read_checked_manifest
from ai_model_format.wire import UploadRequest
from registry_api.db.tables import PushRow, UploadRow
from registry_api.errors import InvalidRequest

Held = tuple[str, int, int]
"""A run of chunks: path, first chunk, behind the last chunk."""


@dataclass(frozen=True, slots=True)
class PushedFile:
    """A file as uploads see it: its digest and what it is cut into.

    Attributes:
        sha256: of the whole.
        chunks: one behind the other.
        starts: offset of each chunk, and the file's size behind the last.
    """

    sha256: Digest
    chunks: Sequence[Chunk]
    starts: Sequence[int]


def pushed_files(push: PushRow, manifest: Manifest | None = None) -> dict[str, PushedFile]:
    """Return the files of a push by path; a plain file counts as one chunk.

    ``manifest`` saves reading that of the push again.
    """
    if push.files is not None:
        return {file["path"]: _plain_file(file["sha256"], file["size"]) for file in push.files}
    if manifest is None:
        assert push.manifest is not None
        manifest = read_checked_manifest(push.manifest)
    return {
        file.path: PushedFile(file.sha256, file.chunks, file.chunk_starts)
        for file in manifest.files
    }


def check_contents(wanted: UploadRequest, files: Mapping[str, PushedFile]) -> None:
    """Check that an upload is made of chunks of the push, none of them twice over.

    Raises:
        InvalidRequest: it names chunks that are not there, or its size or digest cannot be.
    """
    size = count = 0
    for run in wanted.contents:
        file = files.get(run.path)
        if file is None:
            raise InvalidRequest(f"upload {wanted.digest}: the push has no file {run.path!r}")
        if not run.first_chunk < run.last_chunk <= len(file.chunks):
            raise InvalidRequest(
                f"upload {wanted.digest}: file {run.path!r} has no chunks"
                f" {run.first_chunk} to {run.last_chunk}"
            )
        size += file.starts[run.last_chunk] - file.starts[run.first_chunk]
        count += run.last_chunk - run.first_chunk
    if count > sum(len(file.chunks) for file in files.values()):
        raise InvalidRequest(f"upload {wanted.digest}: it has more chunks than the push")
    if size != wanted.size:
        raise InvalidRequest(
            f"upload {wanted.digest}: its contents have {size} bytes, it says {wanted.size}"
        )
    if len(wanted.contents) == 1:
        run = wanted.contents[0]
        file = files[run.path]
        is_whole = run.last_chunk - run.first_chunk == len(file.chunks)
        if is_whole and wanted.digest != file.sha256:
            raise InvalidRequest(f"upload {wanted.digest}: file {run.path!r} is {file.sha256}")


def contents_of(row: UploadRow) -> list[Held]:
    """Return what an upload holds."""
    return [(path, first, last) for path, first, last in row.contents]


def contents_wanted(wanted: UploadRequest) -> list[Held]:
    """Return what an upload is to hold."""
    return [(run.path, run.first_chunk, run.last_chunk) for run in wanted.contents]


def chunks_held(uploads: Iterable[UploadRow], files: Mapping[str, PushedFile]) -> set[Digest]:
    """Return the chunks in any of the uploads; looks at each once, however many hold it."""
    held: set[Digest] = set()
    seen = dict.fromkeys(files, 0)
    for path, first, last in sorted(run for row in uploads for run in contents_of(row)):
        held.update(chunk.digest for chunk in files[path].chunks[max(first, seen[path]) : last])
        seen[path] = max(seen[path], last)
    return held


def _plain_file(sha256: Digest, size: int) -> PushedFile:
    return PushedFile(sha256, [Chunk(sha256, size)] if size else [], (0, size) if size else (0,))
