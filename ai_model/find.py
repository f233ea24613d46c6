"""Find versions by the data, code and parameters they were made from, or a file they hold."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from ai_model.api import Api

if TYPE_CHECKING:
    from ai_model_format.wire import VersionSummary

_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Facts(TypedDict, total=False):
    """What must be true of a version; what is left out may be anything.

    Attributes:
        dataset_id: the data it was made from.
        dataset_version: the version of that.
        git_commit: of the code, or what it starts with: four digits or more.
        parameters: values by name; the names of nested ones nested, or joined with a dot.
        tags: texts by name.
        sha256: of a file that it holds, or of its manifest; with or without ``sha256:``.
        created_by: name of the token that pushed it.
        prefix: what its model's id starts with.
    """

    dataset_id: str
    dataset_version: str
    git_commit: str
    parameters: Mapping[str, Any]
    tags: Mapping[str, str]
    sha256: str
    created_by: str
    prefix: str


def find(api: Api, facts: Facts) -> "Iterator[VersionSummary]":
    """Yield the versions of which all of the facts are true, newest first.

    Raises:
        UsageError: a value can be true of no version.
    """
    asked: dict[str, Any] = {**facts}
    parameters, tags = asked.pop("parameters", {}), asked.pop("tags", {})
    asked["param"] = [f"{name}={json.dumps(value)}" for name, value in _leaves(parameters)]
    asked["tag"] = [f"{name}={text}" for name, text in tags.items()]
    if _HEX.fullmatch(asked.get("sha256", "")):
        asked["sha256"] = f"sha256:{asked['sha256']}"
    return api.find(**asked)


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield values with the names that lead to them, joined with dots. Pure."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{rest}", leaf) for rest, leaf in _leaves(value))
        else:
            yield name, value
