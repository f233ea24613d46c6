"""An environment of its own for every peer, from PyPI, and programs from Debian."""

import shutil
import subprocess
import sys
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
            shutil.rmtree(folder, ignore_errors=True)
            self.root.mkdir(parents=True, exist_ok=True)
            for step in _steps(folder, packages):
                _checked(step)
            stamp.write_text("\n".join(packages))
        return folder / "bin"

    def version(self, name: str, package: str) -> str:
        """Return the version of an installed package, or nothing."""
        found = list(
            (self.root / name).glob(f"lib/*/site-packages/{package.replace('-', '_')}-*.dist-info")
        )
        return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else ""


def program(name: str, *, debian: str) -> Path:
    """Return a program of the system, installed from Debian where it is absent.

    Raises:
        PeerUnavailable: it is absent and does not install.
    """
    if not shutil.which(name):
        _say(f"installing {debian} (Debian)")
        _checked(("apt-get", "install", "--yes", "--quiet", debian))
    return Path(shutil.which(name) or name)


def _steps(folder: Path, packages: tuple[str, ...]) -> list[tuple[str, ...]]:
    uv, python = Path(sys.executable).with_name("uv"), str(folder / "bin" / "python")
    if uv.exists():  # the same result, in a fifth of the time
        return [
            (str(uv), "venv", "--quiet", "--python", sys.executable, str(folder)),
            (str(uv), "pip", "install", "--quiet", "--python", python, *packages),
        ]
    return [
        (sys.executable, "-m", "venv", str(folder)),
        (python, "-m", "pip", "install", "--quiet", *packages),
    ]


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
