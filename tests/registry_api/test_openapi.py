"""The interface as OpenAPI: a reviewed snapshot, and a service that keeps to it."""

import subprocess
import sys
from pathlib import Path

from registry_api.__main__ import openapi_text
from tests.registry_api.conftest import Service, push_plain

SNAPSHOT = Path(__file__).parents[2] / "openapi.json"


def test_the_snapshot_is_the_interface() -> None:
    """Regenerate by ``python -m registry_api openapi > openapi.json`` and review the diff."""
    assert SNAPSHOT.read_text() == openapi_text() + "\n"


def test_the_service_keeps_to_the_interface(service: Service, tmp_path: Path) -> None:
    """Schemathesis finds nothing.

    Two of its checks are left out: that all valid by the schema is accepted, as JSON Schema
    cannot say every rule (``..`` in an id, one of two fields); and use of what was deleted, as
    its guesses at ids never exist.
    """
    api = service.client()
    push_plain(api, "net", "v1", {"a": b"x"}, alias="prod")
    share = {"version": "v1", "basis_points": 10_000}
    routed = api.put("/v1/models/net/route", json={"shares": [share], "force": True})
    assert routed.is_success, routed.text
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(SNAPSHOT)]
    command += ["--url", service.url, "-H", f"Authorization: {api.headers['authorization']}"]
    for tag in ("health", "catalog", "push", "get", "events", "traffic"):
        command += ["--include-tag", tag]
    command += ["--phases", "coverage,fuzzing", "--max-examples", "5", "--seed", "1"]
    command += ["--checks", "all", "--exclude-checks", "positive_data_acceptance,use_after_free"]
    command += ["--generation-database", "none", "--no-color", "--request-timeout", "120"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
