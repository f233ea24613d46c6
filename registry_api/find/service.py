"""Read what is asked for, and show what is found."""

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from ai_model_format.wire import FieldError, FindRequest, check_json
from registry_api.access import Caller
from registry_api.catalog.pages import decode_numeric_page_token, version_page
from registry_api.db.session import Driver
from registry_api.errors import InvalidRequest
from registry_api.find import queries
from registry_api.find.queries import Question


def find(driver: Driver, caller: Caller, request: FindRequest) -> bytes:
    """Return versions of which all is true that is asked for, as the JSON of a ``VersionPage``.

    Raises:
        InvalidRequest: the page token is not one of ours, or a value none that could be stored.
    """
    question = Question(
        list(_facts_of(request)), request.git_commit, request.sha256, request.prefix
    )
    before, limit = decode_numeric_page_token(request.page_token), request.page_size + 1
    found = queries.find(driver, caller, question, before=before, limit=limit)
    return version_page(found, request.page_size)


def _facts_of(request: FindRequest) -> Iterator[tuple[str, Any]]:
    """Yield what is asked for as paths in the metadata and values there. Pure."""
    named = {
        "dataset.id": request.dataset_id,
        "dataset.version": request.dataset_version,
        "created_by": request.created_by,
    }
    yield from ((path, text) for path, text in named.items() if text is not None)
    for tag in request.tag:
        key, _, text = tag.partition("=")
        yield f"tags.{key}", text
    for param in request.param:
        key, _, text = param.partition("=")
        yield f"parameters.{key}", _value_of(text)


def _value_of(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    try:
        return check_json(value)
    except ValueError as error:
        raise InvalidRequest(
            f"param: the value {error}.", [FieldError(field="param", message=str(error))]
        ) from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
