"""Every ``--help`` is reviewed, shows an example, and starts without the heavy libraries."""

import re
import subprocess
import sys

import pytest

from tests.ai_model_cli.help_snapshots import FOLDER, helps

HELPS = helps()


def test_no_snapshot_is_left_over():
    assert sorted(path.name for path in FOLDER.glob("*.txt")) == sorted(HELPS)


@pytest.mark.parametrize("name", HELPS)
def test_help_is_the_reviewed_one(name):
    reviewed = (FOLDER / name).read_text()
    assert HELPS[name] == reviewed, "run `make snapshots` and review the difference"


@pytest.mark.parametrize("name", HELPS)
def test_help_shows_an_example(name):
    command = name.removesuffix(".txt").replace("ai-model-", "ai-model ").replace("-", " ")
    assert re.search(
        rf"^ +(eval \"\$\()?{command.replace('ai model', 'ai-model')}", HELPS[name], re.MULTILINE
    )


@pytest.mark.parametrize("name", HELPS)
def test_json_is_everywhere(name):
    assert "--json" in HELPS[name] or "Commands:" in HELPS[name]


def test_help_imports_nothing_heavy():
    program = (
        "import sys\n"
        "from ai_model_cli.invocation import Invocation\n"
        "from ai_model_cli.main import run\n"
        "assert run(['--help'], Invocation()) == 0\n"
        "assert run(['push', '--help'], Invocation()) == 0\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {
        "httpx",
        "pydantic",
        "urllib3",
        "numpy",
        "torch",
        "registry_api",
        "storage",
    }
