"""Names that people type: model ids, versions, aliases, refs, paths.

The patterns fit S3 keys, Hugging Face repositories and URLs at once. Must not
look anything up: whether a name exists is the registry's to say.
"""

import re
import unicodedata
from collections.abc import Sequence

MODEL_ID_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,94}[a-z0-9])?(/[a-z0-9]([a-z0-9._-]{0,94}[a-z0-9])?)?$"
VERSION_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}$"
LATEST = "latest"
RESERVED_NAMES = frozenset(
    {"versions", "aliases", "pushes", "route", "rollouts", "endpoints", "events", "lineage"}
)
"""Names that a model in a namespace cannot have: they follow a model id in URLs."""
MAX_PATH_BYTES = 1024
MAX_PATH_PART_BYTES = 255

_MODEL_ID = re.compile(MODEL_ID_PATTERN.strip("^$"), re.ASCII)
_VERSION = re.compile(VERSION_PATTERN.strip("^$"), re.ASCII)


class InvalidName(ValueError):
    """A name breaks the rule of its kind.

    Attributes:
        kind: what the name was for, such as ``model id``.
        value: what was given.
        rule: what such a name must be, as the end of a sentence.
    """

    def __init__(self, kind: str, value: str, rule: str) -> None:
        self.kind = kind
        self.value = value
        self.rule = rule
        article = "an" if kind[:1] in "aeiou" else "a"
        super().__init__(f"{kind} {value[:200]!r} is not valid: {article} {kind} {rule}")


def parse_model_id(text: str) -> str:
    """Return ``text`` if it is a model id, ``name`` or ``namespace/name``.

    Raises:
        InvalidName: it breaks the pattern, or holds ``--`` or ``..``.
    """
    if not _MODEL_ID.fullmatch(text) or "--" in text or ".." in text:
        raise InvalidName(
            "model id",
            text,
            "is lower-case letters, digits, '.', '_' and '-', starts and ends with a letter or"
            " digit, has at most one '/' and neither '--' nor '..'",
        )
    if "/" in text and text.partition("/")[2] in RESERVED_NAMES:
        raise InvalidName(
            "model id", text, f"has none of these names: {', '.join(sorted(RESERVED_NAMES))}"
        )
    return text


def parse_version(text: str) -> str:
    """Return ``text`` if an author may give a version this name.

    Raises:
        InvalidName: it breaks the pattern, or is the reserved ``latest``.
    """
    return _parse_version_like("version", text)


def parse_alias(text: str) -> str:
    """Return ``text`` if an alias may have this name; the rule is that of versions.

    Raises:
        InvalidName: it breaks the pattern, or is the reserved ``latest``.
    """
    return _parse_version_like("alias", text)


def parse_ref(text: str) -> str:
    """Return ``text`` if it can name a version: a version, an alias, ``latest`` or a digest.

    Raises:
        InvalidName: it can be none of these.
    """
    if _VERSION.fullmatch(text) or re.fullmatch(r"sha256:[0-9a-f]{64}", text):
        return text
    raise InvalidName(
        "version", text, "is a version name such as v2.3, an alias, latest, or sha256:<64 hex>"
    )


def parse_path(text: str) -> str:
    """Return ``text`` if it can be a file's path inside a version.

    Paths are relative, use ``/``, and stay inside the directory they are
    written to on every platform.

    Raises:
        InvalidName: it is empty, absolute, too long, holds ``.``, ``..`` or empty
            parts, a backslash, a control character or a lone surrogate.
    """
    problem = _path_problem(text)
    if problem:
        raise InvalidName("file path", text, problem)
    return text


def _parse_version_like(kind: str, text: str) -> str:
    if text == LATEST:
        raise InvalidName(kind, text, "cannot be the reserved word 'latest'")
    if not _VERSION.fullmatch(text):
        raise InvalidName(
            kind,
            text,
            "is 1 to 128 letters, digits, '.', '_', '+' and '-',"
            " and starts with a letter, a digit or '_'",
        )
    return text


def _path_problem(text: str) -> str | None:
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError:
        return "is valid Unicode"
    if len(encoded) > MAX_PATH_BYTES:
        return f"has at most {MAX_PATH_BYTES} bytes"
    if any(unicodedata.category(c) == "Cc" for c in text) or "\\" in text:
        return "has no control characters and no backslash"
    return _parts_problem(text.split("/"))


def _parts_problem(parts: Sequence[str]) -> str | None:
    if any(part in ("", ".", "..") for part in parts):
        return "is relative and has no empty, '.' or '..' part"
    if parts[0].casefold() == ".ai-model":
        return "does not start with '.ai-model', which the client keeps for itself"
    if any(len(part.encode()) > MAX_PATH_PART_BYTES for part in parts):
        return f"has parts of at most {MAX_PATH_PART_BYTES} bytes"
    return None
