"""The lease of one inference server: what it has loaded, said again and again.

Beats go out by a thread of their own: however long a download or a load takes,
the lease of what is loaded already does not lapse.
"""

import threading
from collections.abc import Callable

from ai_model.errors import AiModelError, NotFound
from ai_model.routing.api import TrafficApi
from ai_model.routing.hooks import READY_TIMEOUT_S, Hooks, Loaded
from ai_model_format import wire

BEATS_PER_TTL = 3
PATIENCE = 2
"""After so many looks in a row that found it not ready, a version is no longer loaded."""


class Lease:
    """Which versions a server has loaded, as the registry is told.

    Args:
        traffic: where beats go.
        hooks: asked before each beat whether the server still has what it had.
        address: ``IP:PORT`` of the server; ``None`` takes no lease.
        ttl_s: of the lease.
        on_event: told what a person may want to know.
    """

    def __init__(
        self,
        traffic: TrafficApi,
        hooks: Hooks,
        *,
        address: str | None,
        ttl_s: int,
        on_event: Callable[[str], None],
    ) -> None:
        self._traffic = traffic
        self._hooks = hooks
        self._address = address
        self._ttl_s = ttl_s
        self._on_event = on_event
        self._loaded: dict[str, Loaded] = {}
        self._misses: dict[str, int] = {}
        self._changing = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name="lease", daemon=True)

    @property
    def loaded(self) -> dict[str, Loaded]:
        """Versions that the server has loaded, by name."""
        return self._loaded

    def start(self) -> None:
        """Beat from now on."""
        self._thread.start()

    def close(self) -> None:
        """Say that no more requests are wanted; what runs ends well."""
        self._stopped.set()
        self._thread.join()
        try:
            with self._changing:
                self._beat(draining=True)
        except AiModelError as error:
            self._on_event(f"could not say goodbye, the lease will lapse: {error}")

    def held(self) -> wire.EndpointInfo | None:
        """Return what the registry has on this server, as an earlier sidecar told it.

        Raises:
            AiModelError: the registry does not answer.
        """
        if self._address is None:
            return None
        try:
            known = self._traffic.endpoints(self._hooks.model_id)
        except NotFound:
            return None
        return next((one for one in known if one.address == self._address), None)

    def add(self, *more: Loaded) -> None:
        """Say that the server has more versions loaded.

        Raises:
            AiModelError: the registry did not hear it; the next beat says it again.
        """
        with self._changing:
            self._loaded = {**self._loaded, **{one.version: one for one in more}}
            self._beat()

    def remove(self, *versions: str) -> None:
        """Say that versions are wanted no longer; their requests end well.

        Raises:
            AiModelError: the registry did not hear it, so they stay.
        """
        with self._changing:
            before = self._loaded
            self._loaded = {name: one for name, one in before.items() if name not in versions}
            try:
                self._beat()
            except AiModelError:
                self._loaded = before
                raise

    def _keep_beating(self) -> None:
        while not self._stopped.wait(self._ttl_s / BEATS_PER_TTL):
            try:
                lost = self._lost()
                with self._changing:
                    self._loaded = {n: one for n, one in self._loaded.items() if n not in lost}
                    self._beat()
            except AiModelError as error:
                self._on_event(f"the registry did not hear us: {error}")

    def _lost(self) -> list[str]:
        """Return the versions that the server no longer has, as after a restart of its own."""
        loaded = self._loaded
        # However many there are and however busy the server is, the beat after them is in time.
        timeout_s = min(READY_TIMEOUT_S, self._ttl_s / BEATS_PER_TTL / max(len(loaded), 1))
        ready = {
            version: self._hooks.is_ready(one, timeout_s=timeout_s)
            for version, one in loaded.items()
        }
        self._misses = {
            version: self._misses.get(version, 0) + 1
            for version, answer in ready.items()
            if answer is False
        }
        lost = [version for version, misses in self._misses.items() if misses >= PATIENCE]
        for version in lost:
            self._on_event(f"the server is no longer ready for {version}")
        return lost

    def _beat(self, *, draining: bool = False) -> None:
        if self._address is None:
            return
        versions = [
            wire.LoadedVersion(version=one.version, digest=one.digest)
            for one in self._loaded.values()
        ]
        request = wire.EndpointRequest(versions=versions, ttl_s=self._ttl_s, draining=draining)
        self._traffic.beat(self._hooks.model_id, self._address, request)
