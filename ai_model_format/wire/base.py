"""What every body is made of: bounded text, JSON, names; and errors."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from ai_model_format import names
from ai_model_format.digest import DIGEST_PATTERN

MAX_METADATA_BYTES = 8 * 1024 * 1024
"""Largest metadata of one version (schemas, parameters, metrics, tags, groups) as JSON."""
MAX_JSON_DEPTH = 64
MAX_PAGE_SIZE = 1000


def check_text(text: str) -> str:
    """Refuse what Postgres cannot store as text: NUL and lone surrogates."""
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("must be valid Unicode") from error
    return text


def check_json(value: Any) -> Any:
    """Refuse JSON that cannot be stored and given back unchanged: NaN, NUL, great depth."""
    stack = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"must not nest deeper than {MAX_JSON_DEPTH}")
        if isinstance(item, str):
            check_text(item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise ValueError("must not hold NaN or an infinity, which JSON does not have")
        elif isinstance(item, int) and not isinstance(item, bool) and abs(item) > 2**63:
            raise ValueError("must not hold integers beyond 64 bits")
        elif isinstance(item, dict):
            stack.extend((key, depth) for key in item)
            stack.extend((member, depth + 1) for member in item.values())
        elif isinstance(item, list):
            stack.extend((member, depth + 1) for member in item)
    return value


Text = Annotated[str, AfterValidator(check_text)]
ShortText = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(check_text)]
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(check_json)]
DigestText = Annotated[str, Field(pattern=DIGEST_PATTERN)]
ModelId = Annotated[
    str, Field(pattern=names.MODEL_ID_PATTERN), AfterValidator(names.parse_model_id)
]
VersionName = Annotated[
    str, Field(pattern=names.VERSION_PATTERN), AfterValidator(names.parse_version)
]
AliasName = Annotated[str, Field(pattern=names.VERSION_PATTERN), AfterValidator(names.parse_alias)]
Ref = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(names.parse_ref)]
FilePath = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(names.parse_path)]
Size = Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)]


class Request(BaseModel):
    """A body that a client sends."""

    model_config = ConfigDict(extra="forbid")


class Response(BaseModel):
    """A body that the service answers."""

    model_config = ConfigDict(extra="ignore")


class FieldError(Response):
    """One field of a request that is wrong."""

    field: str
    message: str


class Problem(Response):
    """An error, as ``application/problem+json`` (RFC 9457).

    ``code`` is stable and meant for programs: ``version_not_found``, ``invalid_request``...
    """

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str = ""
    request_id: str = ""
    errors: list[FieldError] = []
