"""The commit of the checkout that a push is run in."""

import subprocess
from pathlib import Path


def head_commit(directory: Path | None = None) -> str | None:
    """Return the commit that is checked out, ``None`` outside of a checkout or without git.

    Args:
        directory: where to look; the working directory where not given.
    """
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
