"""How a sidecar talks to its inference server: load, unload, are you ready."""

import json
import logging
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx

LOAD_TIMEOUT_S = 600.0
READY_TIMEOUT_S = 5.0

Action = Literal["load", "unload"]

logger = logging.getLogger("ai_model.watch")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version that the server has loaded from a directory of its own."""

    version: str
    digest: str
    path: Path


@dataclass(frozen=True, slots=True)
class Hooks:
    """The server's side of a sidecar.

    Attributes:
        model_id: whose versions.
        on_load: command, or URL to POST to, that loads or unloads a version; ``None`` for a
            server that sees by itself what is in the directory.
        ready: URL that answers 200 when the server is ready; ``{version}``, ``{digest}`` and
            ``{path}`` are filled in.
    """

    model_id: str
    on_load: str | None = None
    ready: str | None = None

    def tell(self, action: Action, loaded: Loaded) -> None:
        """Ask the server to load or unload a version, and wait until it has.

        Raises:
            OSError: the command cannot be started.
            SubprocessError: the command fails, or takes too long.
            HTTPError: the URL does not answer with success.
        """
        if self.on_load is None:
            return
        said = {
            "action": action,
            "model_id": self.model_id,
            "version": loaded.version,
            "digest": loaded.digest,
            "path": str(loaded.path),
        }
        if self.on_load.startswith(("http://", "https://")):
            httpx.post(self.on_load, json=said, timeout=LOAD_TIMEOUT_S).raise_for_status()
            return
        environment = {f"AI_MODEL_{name.upper()}": value for name, value in said.items()}
        subprocess.run(
            [*shlex.split(self.on_load), action, str(loaded.path)],
            check=True,
            env={**os.environ, **environment},
            input=json.dumps(said).encode(),
            timeout=LOAD_TIMEOUT_S,
        )

    def is_ready(self, loaded: Loaded, *, timeout_s: float = READY_TIMEOUT_S) -> bool | None:
        """Say whether the server is ready for a version; ``None`` where it does not tell.

        It does not tell where no URL is given, and where it is too busy to answer in time.
        """
        if self.ready is None:
            return None
        url = self.ready
        for name in ("version", "digest", "path"):
            url = url.replace(f"{{{name}}}", str(getattr(loaded, name)))
        try:
            return httpx.get(url, timeout=timeout_s).status_code == 200
        except httpx.TimeoutException:
            return None
        except httpx.TransportError:
            logger.info("%s does not answer", url)
            return False
