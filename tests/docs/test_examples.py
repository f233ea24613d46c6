"""The examples of the documents run as they stand."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from registry_api.settings import Settings

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"


def test_two_ranks_of_ddp_push_one_checkpoint(shell):
    torch = pytest.importorskip("torch")
    arguments = ["--model-id", "demo/ddp", "--version", "step-20"]
    trained = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
            "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0",
            str(EXAMPLES / "ddp_push.py"), *arguments,
        ],
        cwd=shell.folder, env=shell.environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.count("pushed demo/ddp step-20") == 1
    shown = shell.json("show", *arguments)["metadata"]
    assert shown["parameters"] == {"lr": 0.1, "world_size": 2}
    assert 0 < shown["metrics"]["loss"] < 5
    shell.run("get", *arguments, "--layers", "encoder", "--output", "part")
    state = torch.load(shell.folder / "part" / "checkpoint.pt", weights_only=True)
    assert {name.partition(".")[0] for name in state} == {"encoder"}
    assert state["encoder.0.weight"].shape == (32, 16)


def test_curl_pushes_a_checkpoint(shell, served, weights):
    settings = tomllib.loads((served / "client.toml").read_text())
    environment = os.environ | {
        "AI_MODEL_ENDPOINT": settings["endpoint"],
        "AI_MODEL_TOKEN": settings["token"],
    }
    for _ in range(2):  # the second finds the version there with the same bytes
        pushed = subprocess.run(
            [EXAMPLES / "push_with_curl.sh", weights, "demo/curl", "step-20"],
            cwd=shell.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert pushed.returncode == 0, pushed.stdout + pushed.stderr
        assert '"state":"ready"' in pushed.stdout.replace(" ", "")
    model = ("--model-id", "demo/curl", "--version", "step-20")
    layers = shell.json("layers", *model, "--depth", "1")["layers"]
    assert [layer["name"] for layer in layers] == ["encoder", "head"]
    shell.run("get", *model, "--layers", "head", "--output", "part")


def test_every_setting_of_the_service_is_documented():
    text = (ROOT / "docs" / "configuration.md").read_text()
    documented = set(re.findall(r"^\| `AI_MODEL_([A-Z0-9_]+)` \|", text, re.MULTILINE))
    assert documented == {name.upper() for name in Settings.model_fields}


@pytest.mark.parametrize("name", ["README.md", "docs/cli.md"])
def test_every_command_that_is_named_exists(name):
    from ai_model_cli.main import COMMANDS

    named = set(
        re.findall(r"(?:^\$ |`)(?:\S*/)?ai-model ([a-z]+)", (ROOT / name).read_text(), re.MULTILINE)
    )
    assert named
    assert named <= set(COMMANDS)


def test_every_command_is_documented():
    from ai_model_cli.main import COMMANDS

    text = (ROOT / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if not re.search(rf"`(ai-model )?{name}\b", text)] == []
