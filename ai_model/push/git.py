"""The commit of a checkout, for the metadata of a push."""

import subprocess
from pathlib import Path


def head_commit(directory: Path) -> str | None:
    """Return the commit checked out there, ``None`` outside of a checkout or without git."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", "HEAD"],
            cwd=directory,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    commit = done.stdout.decode("ascii", "replace").strip()
    return commit if done.returncode == 0 and len(commit) in (40, 64) else None
