"""What the client's verbs answer. Plain values; ``to_json`` gives what ``--json`` prints."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


class Result:
    """Fields that JSON can hold."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }


@dataclass(frozen=True, slots=True)
class PushedFile(Result):
    """One file of a push.

    Attributes:
        path: inside the version.
        size: bytes.
        sha256: digest of the whole file.
        format: weight format, ``opaque`` where there is none.
    """

    path: str
    size: int
    sha256: str
    format: str


@dataclass(frozen=True, slots=True)
class PushResult(Result):
    """A published version, and what it took.

    Attributes:
        created: this push published it; ``False`` where it was there with the same bytes.
        bytes_total: of all files.
        bytes_sent: that went over the network in this call.
        bytes_already_there: that the registry held before this call.
        bytes_not_sent: that this call did not have to send: those, what stands in the version
            more than once, and what an interrupted push had sent before.
        notes: sentences for the author.
    """

    model_id: str
    version: str
    manifest_digest: str
    created: bool
    bytes_total: int
    bytes_sent: int
    bytes_already_there: int
    bytes_not_sent: int
    files: tuple[PushedFile, ...]
    elapsed_s: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GotFile(Result):
    """One file of a get.

    Attributes:
        path: below the output directory.
        size: bytes on disk.
        sha256: of the bytes on disk, of a subset too.
        complete: the file is the whole file of the version, not a subset.
    """

    path: str
    size: int
    sha256: str
    complete: bool


@dataclass(frozen=True, slots=True)
class GetResult(Result):
    """A version on disk, or the part of it that was asked for.

    Attributes:
        output: directory that holds the files.
        bytes_selected: size of the files written.
        bytes_fetched: received from the network for them, gaps and repeats included.
        bytes_reused: taken from bytes that lay here already.
        requests: HTTP requests sent.
    """

    model_id: str
    version: str
    manifest_digest: str
    output: Path
    files: tuple[GotFile, ...]
    bytes_selected: int
    bytes_fetched: int
    bytes_reused: int
    requests: int
    elapsed_s: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedFile(Result):
    """One file of a verified directory.

    Attributes:
        status: ``ok``; ``missing``; ``bad`` where bytes or the size differ.
        tensors: names of tensors whose bytes differ or are cut off.
        reason: a sentence, empty where all is well.
    """

    path: str
    status: Literal["ok", "missing", "bad"]
    tensors: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class VerifyResult(Result):
    """A directory beside what the registry says it holds."""

    model_id: str
    version: str
    manifest_digest: str
    directory: Path
    ok: bool
    files: tuple[CheckedFile, ...]
    bytes_verified: int
    elapsed_s: float


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
