"""Errors as answers: ``application/problem+json``, with the request's id, whatever went wrong."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ai_model_format.names import InvalidName
from ai_model_format.wire import FieldError, Problem
from registry_api.errors import (
    DatabaseNotAvailable,
    InvalidRequest,
    ObjectMissing,
    RegistryError,
    StoreIsFull,
    StoreNotAvailable,
    UploadIncompleteYet,
)
from storage.interface import ObjectNotFound, StoreFull, StoreUnavailable, UploadIncomplete

MEDIA_TYPE = "application/problem+json"
MAX_FIELD_ERRORS = 50
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "payload_too_large"}

_TRANSLATIONS: list[tuple[type[Exception], Callable[[Any], RegistryError]]] = [
    (InvalidName, lambda e: InvalidRequest(str(e), [FieldError(field=e.kind, message=e.rule)])),
    (StoreUnavailable, lambda _: StoreNotAvailable("the object store does not answer")),
    (StoreFull, lambda _: StoreIsFull("the store has no room left, or is over its quota")),
    (ObjectNotFound, lambda _: ObjectMissing("the store does not hold this object")),
    (UploadIncomplete, lambda e: UploadIncompleteYet(str(e))),
    (OperationalError, lambda _: DatabaseNotAvailable("the database does not answer")),
    (PoolTimeout, lambda _: DatabaseNotAvailable("the database is too busy; try again soon")),
]

logger = logging.getLogger("registry_api")


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as an answer; ASCII, so that echoed lone surrogates cannot break it."""
    body = json.dumps(problem.model_dump(mode="json")).encode()
    return Response(body, problem.status, headers=headers, media_type=MEDIA_TYPE)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of the errors that a handler answers."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in statuses
    }


def field_errors(errors: Iterable[Mapping[str, Any]]) -> list[FieldError]:
    """Turn pydantic's errors into ours, without the input, which may be huge or secret."""
    found: list[FieldError] = []
    for error in errors:
        place = ".".join(str(part)[:100] for part in error["loc"] if part != "body")
        found.append(FieldError(field=place or "body", message=str(error["msg"])[:500]))
        if len(found) == MAX_FIELD_ERRORS:
            break
    return found


def known_error(error: Exception) -> RegistryError | None:
    """Translate an error of a layer below, ``None`` where it is a surprise."""
    if isinstance(error, RegistryError):
        return error
    translate = next((make for kind, make in _TRANSLATIONS if isinstance(error, kind)), None)
    return translate(error) if translate else None


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` as a problem."""

    def on_known(request: Request, error: Exception) -> Response:
        known = known_error(error)
        assert known is not None
        if known.status >= 500:
            logger.warning("%s: %s", known.code, error, exc_info=error)
        return problem_response(known.problem(_request_id(request)), known.headers)

    def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        fields = field_errors(error.errors())
        detail = "; ".join(f"{field.field}: {field.message}" for field in fields[:3])
        return problem_response(InvalidRequest(detail, fields).problem(_request_id(request)))

    def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title = HTTPStatus(error.status_code).phrase
        problem = Problem(
            title=title,
            status=error.status_code,
            code=_CODES.get(error.status_code, "invalid_request"),
            detail=str(error.detail),
            request_id=_request_id(request),
        )
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_allowed_methods(request))
        return problem_response(problem, headers)

    app.add_exception_handler(RegistryError, on_known)
    for kind, _ in _TRANSLATIONS:
        app.add_exception_handler(kind, on_known)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of every route on this path; Starlette names those of the first."""
    allowed: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            allowed |= getattr(route, "methods", None) or set()
    return sorted(allowed)


def _request_id(request: Request) -> str:
    return str(request.scope.get("request_id", ""))
