"""``pip install .`` gives the client alone, ``.[server]`` all for serve."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT = {"click", "httpx", "pydantic", "urllib3"}
BUILT_FROM = (
    "LICENSE", "README.md", "ai_model", "ai_model_cli", "ai_model_format", "migrations",
    "pyproject.toml", "registry_api", "storage",
)  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    source.mkdir()
    for name in BUILT_FROM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_client_needs_little(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    needed = metadata.get_all("Requires-Dist") or []
    plain = {re.split(r"[^\w-]", text)[0] for text in needed if "extra ==" not in text}
    assert plain == CLIENT
    assert metadata["License-Expression"] == "Apache-2.0"


def test_the_wheel_holds_every_source_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = {
        str(path.relative_to(ROOT))
        for package in BUILT_FROM
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".typed", ".sql", ".mako", ".ini", ".template"}
    }
    assert wanted - held == set()


def test_the_installed_command_runs_outside_the_checkout(wheel, tmp_path):
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--target", str(target), str(wheel)], check=True)
    done = subprocess.run(
        [sys.executable, str(target / "bin" / "ai-model"), "--version"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(target)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert done.stdout == f"ai-model {version}\n"


def pins(name: str) -> dict[tuple[str, str], bool]:
    """Return whether each pinned version of a list has a hash."""
    text = (ROOT / "requirements" / name).read_text()
    found = re.findall(r"^([\w.-]+)==([^\s;]+)[^\n]*\n( +--hash=sha256:)?", text, re.MULTILINE)
    return {(package, version): bool(hashed) for package, version, hashed in found}


def test_every_pin_is_hashed_and_the_lists_agree():
    everything = pins("check.txt")
    for name in ("check.txt", "run.txt", "server.txt"):
        assert len(pins(name)) > 30
        assert all(pins(name).values())
        assert pins(name).keys() <= everything.keys()
