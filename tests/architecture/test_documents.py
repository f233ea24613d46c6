"""What the documents say about the tree is true."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOP = re.compile(r"`([\w/]+\.py)::([\w.]+)`")
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NOT_FOR_THE_TREE = tuple(
    "".join(parts)
    for parts in (
        ("pypi", ".org"),
        ("files.python", "hosted.org"),
        ("registry.npm", "js.org"),
        ("deb.debian", ".org"),
        ("proxy.go", "lang.org"),
        ("/ro", "ot/"),
        ("/wo", "rk/"),
        ("/opt/", "wheels"),
        ("/opt/", "pypi"),
    )
)


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def names_in(path: Path) -> set[str]:
    """Return the functions and classes of a module, methods as ``Class.method``."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("name", ["push.md", "get.md"])
def test_every_hop_exists(name):
    hops = HOP.findall((ROOT / "docs" / name).read_text())
    assert len(hops) >= 8
    missing = [f"{path}::{what}" for path, what in hops if what not in names_in(ROOT / path)]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    dead = [link for link in LINK.findall(text) if not (path.parent / link).exists()]
    assert dead == []


def test_the_tree_names_no_registry_host_and_no_machine():
    for path in tracked():
        text = path.read_bytes().decode(errors="replace")
        for word in NOT_FOR_THE_TREE:
            assert word not in text, f"{path.relative_to(ROOT)} names {word}"
