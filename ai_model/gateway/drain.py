"""Let Envoy's clients go before it is stopped: on SIGTERM it would cut them off at once."""

import logging
import re
import subprocess
import time
from pathlib import Path

import httpx

DRAIN_S = 5
"""How long new requests are still taken, each answered with ``Connection: close``."""
LOOK_EVERY_S = 0.1

logger = logging.getLogger("ai_model.gateway")


def drain(process: subprocess.Popen[bytes], admin: Path, *, timeout_s: float) -> None:
    """Return when no request runs any more, or the time is over.

    Args:
        process: Envoy.
        admin: file with the address of its admin page; Envoy writes it when it starts.
        timeout_s: longest wait.
    """
    address = admin.read_text() if admin.exists() else ""
    if not address or process.poll() is not None:
        return
    started = time.monotonic()
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=5.0) as client:
            client.post("/drain_listeners?graceful").raise_for_status()
            while process.poll() is None and not _is_idle(client, time.monotonic() - started):
                if time.monotonic() - started >= timeout_s:
                    logger.warning("requests still run after %s s; they are cut off", timeout_s)
                    return
                time.sleep(LOOK_EVERY_S)
    except httpx.HTTPError as error:
        logger.warning("Envoy could not be drained: %s", error)


def _is_idle(client: httpx.Client, elapsed_s: float) -> bool:
    """Say whether nobody is cut off by a stop now.

    While new requests are still taken, any open connection may bring one.
    """
    what = "rq" if elapsed_s > DRAIN_S else "cx"
    name = f"http.models.downstream_{what}_active"
    answer = client.get("/stats", params={"format": "json", "filter": f"^{re.escape(name)}$"})
    return not sum(one.get("value", 0) for one in answer.raise_for_status().json()["stats"])
