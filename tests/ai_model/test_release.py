"""The version stands in two places, and is the same."""

import tomllib
from pathlib import Path

from ai_model.release import VERSION

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_version_is_that_of_the_package():
    assert tomllib.loads(PYPROJECT.read_text())["project"]["version"] == VERSION
