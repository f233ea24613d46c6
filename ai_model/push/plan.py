"""Which objects a push sends. Pure.

A file of which nothing is known, nor sent with the file before it, goes as one object
under the file's own digest, so that plain S3 tools can fetch and check it. What is
missing of other files is packed into few new objects, whose digests are not known
before their bytes were read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import WORTH_SHARING
from ai_model_format.digest import Digest
from ai_model_format.manifest import File, Manifest

MAX_PACK_SIZE = 2 * 1024**3
"""Packs end at this size, so that one is never too large for a multipart upload."""


@dataclass(frozen=True, slots=True)
class Content:
    """A run of chunks of one file.

    Attributes:
        path: of the file.
        first_chunk: index of the first chunk.
        last_chunk: index behind the last chunk.
        range: its bytes in the file.
    """

    path: str
    first_chunk: int
    last_chunk: int
    range: ByteRange


@dataclass(frozen=True, slots=True)
class PlannedObject:
    """An object to send.

    Attributes:
        contents: runs of chunks, one behind the other.
        digest: of the object; ``None`` where it has to be hashed first.
    """

    contents: tuple[Content, ...]
    digest: Digest | None = None

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return sum(content.range.size for content in self.contents)

    def slices(self, wanted: ByteRange) -> list[tuple[str, ByteRange]]:
        """Return where the bytes ``wanted`` of the object lie: (path, range in the file)."""
        found = []
        start = 0
        for content in self.contents:
            end = start + content.range.size
            first, last = max(start, wanted.start), min(end, wanted.end)
            if first < last:
                shift = content.range.start - start
                found.append((content.path, ByteRange(first + shift, last + shift)))
            start = end
        return found


def plan_objects(
    manifest: Manifest, missing: Mapping[str, Sequence[tuple[int, int]]]
) -> list[PlannedObject]:
    """Say which objects bring the registry what it lacks, whole files first.

    Args:
        manifest: of the version.
        missing: half-open ranges of chunk indices by the file's path.

    Raises:
        ValueError: ``missing`` names what the manifest does not hold.
    """
    files = {file.path: file for file in manifest.files}
    if unknown := missing.keys() - files.keys():
        raise ValueError(f"files that were not offered are missing: {sorted(unknown)[:3]}")
    whole: list[PlannedObject] = []
    loose: list[Content] = []
    sent: set[Digest] = set()
    for file in manifest.files:
        indices = _indices(file, missing.get(file.path, ()))
        if indices and len(indices) == len(file.chunks) and not _worth_cutting(file, sent):
            everything = Content(file.path, 0, len(file.chunks), ByteRange(0, file.size))
            whole.append(PlannedObject((everything,), file.sha256))
            sent.update(chunk.digest for chunk in file.chunks)
        else:
            loose += [_content(file, first, last) for first, last in _runs(indices)]
    return [*whole, *_pack(loose, files, sent)]


def _worth_cutting(file: File, sent: set[Digest]) -> bool:
    """Say whether enough of a file goes with other files of the same push."""
    shared = sum(chunk.size for chunk in file.chunks if chunk.digest in sent)
    return shared >= file.size * WORTH_SHARING


def _pack(
    contents: Iterable[Content], files: Mapping[str, File], known: set[Digest]
) -> list[PlannedObject]:
    """Put chunks into packs, each chunk once."""
    packs: list[list[Content]] = [[]]
    size = 0
    for content in contents:
        for piece in _without_known(content, files[content.path], known):
            if size + piece.range.size > MAX_PACK_SIZE and packs[-1]:
                packs.append([])
                size = 0
            packs[-1].append(piece)
            size += piece.range.size
    return [PlannedObject(tuple(pack), _only_digest(pack, files)) for pack in packs if pack]


def _without_known(content: Content, file: File, known: set[Digest]) -> list[Content]:
    """Cut a run into runs of at most a quarter pack, without chunks that are sent already."""
    kept = []
    for index in range(content.first_chunk, content.last_chunk):
        if file.chunks[index].digest not in known:
            known.add(file.chunks[index].digest)
            kept.append(index)
    return [_content(file, *part) for run in _runs(kept) for part in _cut(file, *run)]


def _cut(file: File, first: int, last: int) -> Iterable[tuple[int, int]]:
    starts = file.chunk_starts
    while first < last:
        end = first + 1
        while end < last and starts[end + 1] - starts[first] <= MAX_PACK_SIZE // 4:
            end += 1
        yield first, end
        first = end


def _indices(file: File, ranges: Iterable[tuple[int, int]]) -> list[int]:
    indices = sorted({index for first, last in ranges for index in range(first, last)})
    if indices and not 0 <= indices[0] <= indices[-1] < len(file.chunks):
        raise ValueError(f"file {file.path!r} has no such chunks: {indices[0]} to {indices[-1]}")
    return indices


def _runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def _content(file: File, first: int, last: int) -> Content:
    starts = file.chunk_starts
    return Content(file.path, first, last, ByteRange(starts[first], starts[last]))


def _only_digest(contents: Sequence[Content], files: Mapping[str, File]) -> Digest | None:
    """Return the digest of a pack of one chunk, which needs no reading."""
    if len(contents) != 1 or contents[0].last_chunk - contents[0].first_chunk != 1:
        return None
    return files[contents[0].path].chunks[contents[0].first_chunk].digest
