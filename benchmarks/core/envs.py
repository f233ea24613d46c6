"""An environment of its own for every peer, from PyPI, and programs from Debian."""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path


class PeerUnavailable(RuntimeError):
    """A peer cannot run here; the message says why."""


@dataclass(frozen=True, slots=True)
class Envs:
    """Virtual environments below one folder, each made once."""

    root: Path

    def ensure(self, name: str, packages: tuple[str, ...]) -> Path:
        """Return the ``bin`` of an environment that holds ``packages``.

        Raises:
            PeerUnavailable: they do not install.
        """
        folder, stamp = self.root / name, self.root / f"{name}.stamp"
        if not (stamp.exists() and stamp.read_text() == "\n".join(packages)):
            _say(f"installing {' '.join(packages)}")
            _make(folder)
            _install(folder, *packages)
            stamp.write_text("\n".join(packages))
        return folder / "bin"

    def version(self, name: str, package: str) -> str:
        """Return the version of an installed package, or nothing."""
        found = list(
            (self.root / name).glob(f"lib/*/site-packages/{package.replace('-', '_')}-*.dist-info")
        )
        return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else ""


def install_own(checkout: Path, folder: Path) -> Path:
    """Install this checkout's client as users get it and return the environment's ``bin``.

    The development environment would not do: what else lies there is imported too.

    Raises:
        PeerUnavailable: it does not install.
    """
    _say("installing this checkout")
    with tempfile.TemporaryDirectory() as copy:
        # a copy, since building leaves files behind, and finds those of earlier builds
        source = shutil.copytree(checkout, Path(copy) / "ai-model", ignore=_UNBUILT)
        _make(folder)
        _install(folder, str(source))
    return folder / "bin"


def program(name: str, *, debian: str) -> Path:
    """Return a program of the system, installed from Debian where it is absent.

    Raises:
        PeerUnavailable: it is absent and does not install.
    """
    if not shutil.which(name):
        _say(f"installing {debian} (Debian)")
        _checked(("apt-get", "install", "--yes", "--quiet", debian))
    return Path(shutil.which(name) or name)


_UNBUILT = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "tests", "docs")


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if _uv().exists():
        _checked((str(_uv()), "venv", "--quiet", "--python", sys.executable, str(folder)))
    else:
        _checked((sys.executable, "-m", "venv", str(folder)))


def _install(folder: Path, *what: str) -> None:
    python = str(folder / "bin" / "python")
    if _uv().exists():  # the same result, in a fifth of the time
        _checked((str(_uv()), "pip", "install", "--quiet", "--python", python, *what))
    else:
        _checked((python, "-m", "pip", "install", "--quiet", *what))


def _uv() -> Path:
    return Path(sys.executable).with_name("uv")


def _checked(argv: tuple[str, ...]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(f"not installed: {error}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise PeerUnavailable(f"not installed: {lines[-1][:200]}")


def _say(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)
