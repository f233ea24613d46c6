"""The sidecar of an inference server: follow an alias or the route, and keep the lease.

Order is everything. A new version is fetched beside the old one, verified,
handed to the server, and only when the server is ready does the lease say so;
an old one leaves the lease first, then the server. The server is handed the
directory of one version, never a link that moves.
"""

import fcntl
import json
import logging
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import httpx

from ai_model.errors import AiModelError
from ai_model.routing.api import TrafficApi
from ai_model_format import wire

if TYPE_CHECKING:
    from ai_model.registry import Registry

LOAD_TIMEOUT_S = 600.0
READY_EVERY_S = 0.5

Action = Literal["load", "unload"]

logger = logging.getLogger("ai_model.watch")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a sidecar watches, and how it talks to its server.

    Attributes:
        model_id: whose versions.
        alias: to follow; ``None`` follows every version of the route, its shadow too.
        directory: versions are fetched into directories below it, named by their digest.
        layers: to fetch; none for all.
        on_load: command, or URL to POST to, that loads or unloads a version.
        ready: URL that answers 200 when the server is ready; ``{version}`` and ``{path}``
            are filled in.
        address: ``IP:PORT`` at which gateways reach the server; ``None`` takes no lease.
        ttl_s: of the lease.
        drain_s: between a version leaving the lease and being unloaded.
    """

    model_id: str
    alias: str | None
    directory: Path
    layers: Sequence[str] = ()
    on_load: str | None = None
    ready: str | None = None
    address: str | None = None
    ttl_s: int = 15
    drain_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version that the server has loaded from a directory of its own."""

    version: str
    digest: str
    path: Path


class Watcher:
    """One sidecar. ``run`` until ``stop``."""

    def __init__(
        self,
        registry: "Registry",
        options: WatchOptions,
        *,
        on_event: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._registry = registry
        self._traffic = TrafficApi(registry.api)
        self.options = options
        self._on_event = on_event
        self._loaded: dict[str, Loaded] = {}
        self._followed = False
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let ``run`` end. Safe to call from a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Follow until stopped, over restarts of the registry and of the network."""
        beats = threading.Thread(target=self._keep_beating, name="lease", daemon=True)
        beats.start()
        while not self._stopped.is_set():
            try:
                self.follow()
            except (AiModelError, httpx.HTTPError, OSError, subprocess.SubprocessError) as error:
                self._on_event(f"trying again: {error}")
            self._stopped.wait(1.0)
        beats.join()
        self._leave()

    def follow(self) -> None:
        """Bring what is loaded to what is wanted, once."""
        wanted = dict(self._wanted())
        for version, digest in wanted.items():
            if version not in self._loaded:
                self._load(version, digest)
        for version in [name for name in self._loaded if name not in wanted]:
            self._unload(self._loaded[version])
        self._followed = True

    def _wanted(self) -> Iterator[tuple[str, str]]:
        """Yield the versions to have loaded, with their digests."""
        model_id, alias = self.options.model_id, self.options.alias
        if alias is not None:
            info = self._registry.api.version(model_id, alias)
            yield info.version, info.manifest_digest
            return
        route = self._traffic.route(model_id)
        for share in (*route.shares, *((route.shadow,) if route.shadow else ())):
            yield share.version, share.manifest_digest

    def _load(self, version: str, digest: str) -> None:
        path = self._fetch(version, digest)
        loaded = Loaded(version, digest, path)
        self._tell("load", loaded)
        self._wait_until_ready(loaded)
        if self._stopped.is_set():
            return
        self._loaded = {**self._loaded, version: loaded}
        self._beat()
        self._on_event(f"{version} is loaded from {path}")

    def _unload(self, old: Loaded) -> None:
        self._loaded = {name: one for name, one in self._loaded.items() if name != old.version}
        self._beat()
        self._stopped.wait(self.options.drain_s)
        self._tell("unload", old)
        self._on_event(f"{old.version} is unloaded")

    def _fetch(self, version: str, digest: str) -> Path:
        """Get a version, once per directory however many sidecars share it.

        The lock only spares work: ``get`` itself lands files by rename, so that
        it is right also where a lock does nothing, as on some network disks.
        """
        path = self.options.directory / digest.removeprefix("sha256:")
        self.options.directory.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_suffix(".lock")):
            self._registry.get(
                self.options.model_id, digest, layers=self.options.layers, output=path
            )
        logger.info("%s is at %s", version, path)
        return path

    def _tell(self, action: Action, loaded: Loaded) -> None:
        """Ask the server to load or unload a version."""
        on_load = self.options.on_load
        if on_load is None:
            return
        said = {
            "action": action,
            "model_id": self.options.model_id,
            "version": loaded.version,
            "digest": loaded.digest,
            "path": str(loaded.path),
        }
        if on_load.startswith(("http://", "https://")):
            httpx.post(on_load, json=said, timeout=LOAD_TIMEOUT_S).raise_for_status()
            return
        environment = {f"AI_MODEL_{name.upper()}": value for name, value in said.items()}
        subprocess.run(
            [*shlex.split(on_load), action, str(loaded.path)],
            check=True,
            env={**os.environ, **environment},
            input=json.dumps(said).encode(),
            timeout=LOAD_TIMEOUT_S,
        )

    def _wait_until_ready(self, loaded: Loaded) -> None:
        if self.options.ready is None:
            return
        url = self.options.ready.format(version=loaded.version, path=loaded.path)
        while not self._stopped.is_set():
            try:
                if httpx.get(url, timeout=5.0).status_code == 200:
                    return
            except httpx.TransportError:
                logger.info("%s does not answer yet", url)
            self._stopped.wait(READY_EVERY_S)

    # The lease

    def _keep_beating(self) -> None:
        while not self._stopped.wait(self.options.ttl_s / 3):
            if not self._followed:
                continue  # after a restart: the lease taken before it still runs
            try:
                self._beat()
            except AiModelError as error:
                self._on_event(f"the registry did not hear us: {error}")

    def _beat(self, *, draining: bool = False) -> None:
        if self.options.address is None:
            return
        versions = [
            wire.LoadedVersion(version=one.version, digest=one.digest)
            for one in self._loaded.values()
        ]
        request = wire.EndpointRequest(
            versions=versions, ttl_s=self.options.ttl_s, draining=draining
        )
        self._traffic.beat(self.options.model_id, self.options.address, request)

    def _leave(self) -> None:
        """Say that no more requests are wanted; what runs ends well."""
        try:
            self._beat(draining=True)
        except AiModelError as error:
            self._on_event(f"could not say goodbye, the lease will lapse: {error}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
