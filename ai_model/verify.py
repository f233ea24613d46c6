"""Check a directory that ``get`` wrote against the registry: every byte, by hashing it."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ai_model.api import Api
from ai_model.errors import Conflict, PathNotFound, UsageError
from ai_model.get.existing import in_place, literals_match, pieces_apart
from ai_model.get.outputs import Output
from ai_model.get.place import Staging
from ai_model.get.plan import Piece, Place
from ai_model.get.receipt import read_selections
from ai_model.get.select import select
from ai_model.get.targets import FileTarget
from ai_model.get.transfer import Transfer
from ai_model.progress import OnProgress
from ai_model.results import CheckedFile, VerifyResult
from ai_model.version import Version, open_version


def verify(api: Api, directory: Path, *, on_progress: OnProgress | None) -> VerifyResult:
    """Hash the files that the directory's receipt names and compare with the manifest.

    Raises:
        PathNotFound: there is no such directory.
        UsageError: no receipt, or one that cannot be read.
        Conflict: the registry knows the version with other content.
    """
    started = time.monotonic()
    version, outputs, unknown = _expected(api, directory, on_progress)
    checked = _check(directory, outputs, Transfer(version, on_progress))
    checked += [CheckedFile(path, "bad", (), "the version has no such file") for path in unknown]
    return VerifyResult(
        model_id=version.model_id,
        version=version.name,
        manifest_digest=version.digest,
        directory=directory,
        ok=all(file.status == "ok" for file in checked),
        files=tuple(sorted(checked, key=lambda file: file.path)),
        bytes_verified=sum(output.size for output in outputs),
        elapsed_s=time.monotonic() - started,
    )


def _expected(
    api: Api, directory: Path, on_progress: OnProgress | None
) -> tuple[Version, list[Output], list[str]]:
    """Return the version, what should lie in the directory, and paths that nothing explains."""
    if not directory.is_dir():
        raise PathNotFound(directory)
    receipt = Staging(directory).read_receipt()
    if receipt is None:
        raise UsageError(
            f"{directory} holds no receipt of a get.",
            way_out="Name a directory that `ai-model get` wrote.",
        )
    try:
        selections = read_selections(receipt)
        model_id, name = str(receipt["model_id"]), str(receipt["version"])
        digest = receipt["manifest_digest"]
    except (ValueError, KeyError) as error:
        raise UsageError(f"The receipt in {directory} cannot be read: {error}.") from error
    version = open_version(api, model_id, name)
    if version.digest != digest:
        raise Conflict(f"The registry's {model_id} {name} is {version.digest}, not {digest}.")
    transfer = Transfer(version, on_progress)
    outputs = []
    for selection, paths in selections.items():
        chosen = select(version.manifest, selection, version.resolved.groups)
        outputs += transfer.outputs([item for item in chosen if item.file.path in paths])
    named = {path for paths in selections.values() for path in paths}
    return version, outputs, sorted(named - {output.path for output in outputs})


def _check(directory: Path, outputs: Sequence[Output], transfer: Transfer) -> list[CheckedFile]:
    with ExitStack() as stack:
        files: dict[int, FileTarget] = {}
        for number, output in enumerate(outputs):
            path = directory / output.path
            if path.is_file() and not path.is_symlink():
                files[number] = FileTarget(path, writable=False)
                stack.callback(files[number].close)
        pieces = [item for item in pieces_apart(outputs) if item[0].output in files]
        good = in_place(pieces, files, transfer, phase="verify")
        return [
            _verdict(directory, output, files.get(number), _bad(number, pieces, good))
            for number, output in enumerate(outputs)
        ]


def _bad(number: int, pieces: Sequence[tuple[Place, Piece]], good: set[Place]) -> list[Piece]:
    return [piece for place, piece in pieces if place.output == number and place not in good]


def _verdict(
    directory: Path, output: Output, file: FileTarget | None, bad: Sequence[Piece]
) -> CheckedFile:
    if file is None:
        return CheckedFile(output.path, "missing", (), "there is no such file")
    tensors = tuple(dict.fromkeys(name for piece in bad for name in piece.tensors()))
    size = (directory / output.path).stat().st_size
    if size != output.size:
        reason = f"it has {size:,} bytes, not {output.size:,}"
    elif bad:
        reason = f"{sum(piece.size for piece in bad):,} bytes lie in chunks with another digest"
    elif not literals_match(output, file):
        reason = "its header is not what get wrote"
    else:
        return CheckedFile(output.path, "ok")
    return CheckedFile(output.path, "bad", tensors, reason)
