"""The two answers that every get reads, taken from JSON without pydantic.

Importing pydantic and building its classes costs a small get more than all of its
requests. ``ai_model_format.wire`` stays the contract: a test reads the same answers both
ways. As there, fields that are not known are passed over.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

Value = TypeVar("Value")
Run = tuple[int, int, int]
"""(index of the object, offset in it, size)."""


class Unreadable(ValueError):
    """An answer is not what ``wire`` says it is."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A version, as far as a get needs to know it. See ``wire.VersionInfo``.

    Attributes:
        yanked: it is not to be used.
        groups: patterns of layers by the name of their group.
        answer: all that the service said.
    """

    model_id: str
    version: str
    manifest_digest: str
    size: int
    yanked: bool
    yank_reason: str
    groups: Mapping[str, list[str]]
    answer: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """Where to read an object. See ``wire.ObjectSource``."""

    digest: str
    size: int
    url: str
    origin_url: str | None


@dataclass(frozen=True, slots=True)
class FileLayout:
    """A file as runs of objects. See ``wire.FileLayout``."""

    path: str
    runs: list[Run]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a version's bytes lie. See ``wire.LayoutInfo``."""

    manifest_digest: str
    objects: list[ObjectSource]
    files: list[FileLayout]
    expires_at: datetime


def read_resolved(data: bytes) -> Resolved:
    """Read a ``wire.VersionInfo``.

    Raises:
        Unreadable: it is something else.
    """
    answer = _object(_json(data))
    groups = _object(_object(answer.get("metadata")).get("groups", {}))
    return Resolved(
        model_id=_field(answer, "model_id", str),
        version=_field(answer, "version", str),
        manifest_digest=_field(answer, "manifest_digest", str),
        size=_size(answer),
        yanked=answer.get("yanked_at") is not None,
        yank_reason=_optional_text(answer, "yank_reason") or "",
        groups={name: _texts(patterns) for name, patterns in groups.items()},
        answer=data,
    )


def read_layout(data: bytes) -> Layout:
    """Read a ``wire.LayoutInfo``.

    Raises:
        Unreadable: it is something else.
    """
    answer = _object(_json(data))
    return Layout(
        manifest_digest=_field(answer, "manifest_digest", str),
        objects=[_source(_object(item)) for item in _field(answer, "objects", list)],
        files=[_file(_object(item)) for item in _field(answer, "files", list)],
        expires_at=_time(_field(answer, "expires_at", str)),
    )


def _source(item: Mapping[str, Any]) -> ObjectSource:
    origin_url = _optional_text(item, "origin_url")
    return ObjectSource(
        _field(item, "digest", str), _size(item), _field(item, "url", str), origin_url
    )


def _file(item: Mapping[str, Any]) -> FileLayout:
    runs = [_run(run) for run in _field(item, "runs", list)]
    return FileLayout(_field(item, "path", str), runs)


def _run(run: object) -> Run:
    if not isinstance(run, list) or [type(number) for number in run] != [int, int, int]:
        raise Unreadable("a run of a file is not three numbers")
    return run[0], run[1], run[2]


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {error}") from error


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable("something is no JSON object that has to be one")
    return value


def _field(answer: Mapping[str, Any], name: str, kind: type[Value]) -> Value:
    value = answer.get(name)
    if type(value) is not kind:  # True is no number here
        raise Unreadable(f"{name!r} is missing or not of type {kind.__name__}")
    return value


def _size(answer: Mapping[str, Any]) -> int:
    size = _field(answer, "size", int)
    if size < 0:
        raise Unreadable("a size is below zero")
    return size


def _optional_text(answer: Mapping[str, Any], name: str) -> str | None:
    return None if answer.get(name) is None else _field(answer, name, str)


def _texts(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Unreadable("a group of layers is no list of patterns")
    return value


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Unreadable(f"{text[:80]!r} is no time") from error
    if moment.tzinfo is None:
        raise Unreadable(f"{text[:80]!r} names no time zone")
    return moment
