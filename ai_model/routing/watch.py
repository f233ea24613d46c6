"""The sidecar of an inference server: follow an alias or the route, and keep the lease.

Order is everything. A new version is fetched beside the old one, verified,
handed to the server, and only when the server is ready does the lease say so;
an old one leaves the lease first, then the server. The server is handed the
directory of one version, never a link that moves.
"""

import fcntl
import hashlib
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from ai_model.errors import AiModelError
from ai_model.routing.api import TrafficApi
from ai_model.routing.hooks import LOAD_TIMEOUT_S, Hooks, Loaded
from ai_model.routing.lease import Lease

if TYPE_CHECKING:
    from ai_model.registry import Registry

FOLLOW_EVERY_S = 1.0
LOOK_EVERY_S = 0.5
TROUBLES = (AiModelError, httpx.HTTPError, OSError, subprocess.SubprocessError)
"""What passes by itself, or when somebody has repaired it: it is tried again."""

logger = logging.getLogger("ai_model.watch")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a sidecar watches, and how it talks to its server.

    Attributes:
        model_id: whose versions.
        alias: to follow; ``None`` follows every version of the route, its shadow and what
            traffic may return to.
        directory: versions are fetched into directories below it, named by their digest.
        layers: to fetch; none for all.
        on_load: command, or URL to POST to, that loads or unloads a version.
        ready: URL that answers 200 when the server is ready; ``{version}``, ``{digest}`` and
            ``{path}`` are filled in.
        address: ``IP:PORT`` at which gateways reach the server; ``None`` takes no lease.
        ttl_s: of the lease.
        drain_s: between a version leaving the lease and being unloaded.
        ready_within_s: how long a version may take from being loaded to being ready; then it
            is unloaded and tried again.
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
    ready_within_s: float = LOAD_TIMEOUT_S

    def path_of(self, digest: str) -> Path:
        """Return the directory of a version, or of the part of it that ``layers`` selects."""
        name = digest.removeprefix("sha256:")
        if self.layers:
            asked = "\n".join(sorted(self.layers)).encode()
            name += f"-{hashlib.sha256(asked).hexdigest()[:12]}"
        return self.directory / name


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
        self._hooks = Hooks(options.model_id, options.on_load, options.ready)
        self._lease = Lease(
            self._traffic,
            self._hooks,
            address=options.address,
            ttl_s=options.ttl_s,
            on_event=on_event,
        )
        self._leaving: list[Loaded] = []
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let ``run`` end. Safe to call from a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Follow until stopped, over restarts of the registry and of the network."""
        while not self._attempt(self._take_up) and not self._stopped.wait(FOLLOW_EVERY_S):
            pass
        self._lease.start()
        while not self._stopped.is_set():
            self._attempt(self.follow)
            self._stopped.wait(FOLLOW_EVERY_S)
        self._lease.close()

    def follow(self) -> None:
        """Bring what is loaded to what is wanted, once.

        Raises:
            AiModelError: or another of ``TROUBLES``; one version's does not keep others back.
        """
        wanted = dict(self._wanted())
        troubles = [
            trouble
            for version, digest in wanted.items()
            if version not in self._lease.loaded
            and (trouble := _trouble_of(lambda: self._load(version, digest)))  # noqa: B023
        ]
        leaving = [one for name, one in self._lease.loaded.items() if name not in wanted]
        # What is to take their place is not there yet: they go on.
        if leaving and not troubles:
            self._retire(leaving)
        while self._leaving and not self._stopped.is_set():
            self._hooks.tell("unload", self._leaving[0])
            self._on_event(f"{self._leaving.pop(0).version} is unloaded")
        if troubles:
            raise troubles[0]

    def _take_up(self) -> None:
        """Go on with the lease that an earlier life of this sidecar held.

        Before anything is fetched: a slow load must not let it lapse. The server
        says itself whether it still has the versions; where it has no such URL,
        only a lease that never ended is taken up.
        """
        held = self._lease.held()
        if held is None:
            return
        known = [
            Loaded(one.version, one.digest, self.options.path_of(one.digest))
            for one in held.versions
            if one.matches
        ]
        still = [one for one in known if one.path.is_dir() and self._has(one, held.state)]
        if still:
            self._lease.add(*still)
            self._on_event(f"goes on with {', '.join(one.version for one in still)}")

    def _has(self, one: Loaded, state: str) -> bool:
        if self.options.ready is None:
            return state == "live"
        return self._hooks.is_ready(one) is True

    def _wanted(self) -> Iterator[tuple[str, str]]:
        """Yield the versions to have loaded, with their digests."""
        model_id, alias = self.options.model_id, self.options.alias
        if alias is not None:
            info = self._registry.api.version(model_id, alias)
            yield info.version, info.manifest_digest
            return
        route = self._traffic.route(model_id)
        shadow = [route.shadow] if route.shadow else []
        for share in (*route.shares, *shadow):
            yield share.version, share.manifest_digest
        for waiting in route.standby:
            yield waiting.version, waiting.manifest_digest

    def _load(self, version: str, digest: str) -> None:
        loaded = Loaded(version, digest, self._fetch(version, digest))
        self._leaving = [one for one in self._leaving if one.version != version]
        self._hooks.tell("load", loaded)
        try:
            self._wait_until_ready(loaded)
        except NotReady:
            self._leaving.append(loaded)
            raise
        self._lease.add(loaded)
        self._on_event(f"{version} is loaded from {loaded.path}")

    def _wait_until_ready(self, loaded: Loaded) -> None:
        """Wait for the server, but not for ever: there may be something else to load by now.

        Raises:
            NotReady: the time is over, or nobody wants the version any more.
            Stopped: before it was ready.
        """
        if self.options.ready is None:
            return
        deadline = time.monotonic() + self.options.ready_within_s
        while not self._hooks.is_ready(loaded):
            if time.monotonic() >= deadline:
                within = f"within {self.options.ready_within_s:g} s"
                raise NotReady(f"The server is not ready for {loaded.version} {within}.")
            if not self._is_wanted(loaded):
                raise NotReady(f"{loaded.version} is not wanted any more, and was never ready.")
            if self._stopped.wait(FOLLOW_EVERY_S):
                raise Stopped(f"Stopped while the server loads {loaded.version}.")

    def _is_wanted(self, loaded: Loaded) -> bool:
        try:
            return (loaded.version, loaded.digest) in self._wanted()
        except AiModelError:  # the registry is away: nobody said otherwise
            return True

    def _retire(self, leaving: list[Loaded]) -> None:
        """Take versions out of the lease, and let their requests end."""
        self._lease.remove(*(one.version for one in leaving))
        self._leaving += leaving
        self._stopped.wait(self.options.drain_s)

    def _fetch(self, version: str, digest: str) -> Path:
        """Get a version, once per directory however many sidecars share it.

        The lock only spares work: ``get`` itself lands files by rename, so that
        it is right also where a lock does nothing, as on some network disks.
        """
        path = self.options.path_of(digest)
        self.options.directory.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_name(f"{path.name}.lock"), self._stopped):
            got = self._registry.get(
                self.options.model_id, digest, layers=self.options.layers, output=path
            )
        self._on_event(f"{version} is at {path}, {got.bytes_fetched} bytes fetched")
        return path

    def _attempt(self, step: Callable[[], None]) -> bool:
        trouble = _trouble_of(step)
        if trouble is not None:
            self._on_event(f"trying again: {trouble}")
        return trouble is None


class Stopped(AiModelError):
    """The sidecar is to end while it waits for a download or a load."""


class NotReady(AiModelError):
    """The server did not become ready for a version in time."""


def _trouble_of(step: Callable[[], None]) -> Exception | None:
    try:
        step()
    except TROUBLES as trouble:
        return trouble
    return None


@contextmanager
def _locked(path: Path, stopped: threading.Event) -> Iterator[None]:
    """Hold a lock among the processes that share a directory.

    Raises:
        Stopped: before it was had.
    """
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stopped.wait(LOOK_EVERY_S):
                    raise Stopped("Stopped while another sidecar downloads.") from None
        yield
