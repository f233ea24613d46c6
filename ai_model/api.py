"""The REST interface as typed calls, one method a request. See ``docs/rest.md``.

Problem documents become the exceptions of ``errors``. Must not decide anything:
what to call when is for the packages of the verbs.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote

import httpx

from ai_model.answers import Layout, Resolved, read_layout, read_resolved
from ai_model.config import Config
from ai_model.errors import ResourceConflict, ResourceNotFound, UsageError, as_sentence
from ai_model.retry import RetryPolicy
from ai_model.session import Query, RequestCounter, Session, read_answer, read_plain
from ai_model_format import names, wire

if TYPE_CHECKING:
    from pydantic import ValidationError

PAGE_SIZE = 200
Body = TypeVar("Body", bound="wire.Request")
Page = TypeVar("Page", "wire.ModelPage", "wire.VersionPage", "wire.AliasList", "wire.TokenList")


class Api:
    """Calls of one registry. Safe to use from threads."""

    def __init__(self, config: Config, *, policy: RetryPolicy | None = None) -> None:
        self.config = config
        self.connections = config.connections
        self.session = Session(config, policy=policy or RetryPolicy())
        self.counter = RequestCounter()

    @property
    def policy(self) -> RetryPolicy:
        """How patiently requests are repeated."""
        return self.session.policy

    def counting_anew(self) -> Self:
        """Return the same calls over the same connections with a counter of their own."""
        twin = copy.copy(self)
        twin.counter = RequestCounter()
        return twin

    def close(self) -> None:
        """Close all connections."""
        self.session.close()

    # Catalog

    def whoami(self) -> wire.Identity:
        """Return who the token belongs to."""
        return read_answer(wire.Identity, self._get("/v1/whoami"))

    def models(self, *, prefix: str = "") -> Iterator[wire.ModelInfo]:
        """Yield models by id."""
        pages = self._pages(wire.ModelPage, "/v1/models", prefix=prefix)
        return (model for page in pages for model in page.models)

    def model(self, model_id: str) -> wire.ModelInfo:
        """Return one model."""
        return read_answer(wire.ModelInfo, self._get(_model(model_id)))

    def versions(self, model_id: str) -> Iterator[wire.VersionSummary]:
        """Yield versions, newest first."""
        pages = self._pages(wire.VersionPage, f"{_model(model_id)}/versions")
        return (version for page in pages for version in page.versions)

    def version(self, model_id: str, ref: str) -> wire.VersionInfo:
        """Resolve a version name, alias, ``latest`` or digest."""
        return read_answer(wire.VersionInfo, self._get(_version(model_id, ref)))

    def resolve(self, model_id: str, ref: str) -> Resolved:
        """Resolve likewise, to what a get needs to know."""
        return read_plain(read_resolved, self._get(_version(model_id, ref)))

    def lineage(
        self, model_id: str, ref: str, *, direction: wire.Direction, depth: int, max_nodes: int
    ) -> wire.LineageInfo:
        """Return what a version was made from and what was made from it."""
        asked: Query = {"direction": direction, "depth": depth, "max_nodes": max_nodes}
        response = self._get(f"{_version(model_id, ref)}/lineage", params=asked)
        return read_answer(wire.LineageInfo, response)

    def find(self, **asked: object) -> Iterator[wire.VersionSummary]:
        """Yield versions of which all is true that ``wire.FindRequest`` asks for, newest first."""
        request = _body(wire.FindRequest, **asked)
        params = request.model_dump(exclude_defaults=True)
        pages = self._pages(wire.VersionPage, "/v1/versions", **params)
        return (version for page in pages for version in page.versions)

    def yank(self, model_id: str, version: str, *, reason: str) -> wire.VersionInfo:
        """Mark a version as not to be used."""
        body = _body(wire.YankRequest, reason=reason)
        response = self._send("PUT", f"{_version(model_id, version)}/yank", body=body)
        return read_answer(wire.VersionInfo, response)

    def unyank(self, model_id: str, version: str) -> wire.VersionInfo:
        """Take a yank back."""
        response = self._send("DELETE", f"{_version(model_id, version)}/yank")
        return read_answer(wire.VersionInfo, response)

    # Aliases

    def aliases(self, model_id: str) -> Iterator[wire.AliasInfo]:
        """Yield aliases, by name."""
        pages = self._pages(wire.AliasList, f"{_model(model_id)}/aliases")
        return (alias for page in pages for alias in page.aliases)

    def set_alias(
        self,
        model_id: str,
        alias: str,
        version: str,
        *,
        expect_version: str | None = None,
        create_only: bool = False,
    ) -> wire.AliasInfo:
        """Point an alias at a version, unconditionally or only from what is expected."""
        path = _alias(model_id, alias)
        headers = {"if-none-match": "*"} if create_only else {}
        if expect_version is not None:
            headers = {"if-match": self._alias_etag(path, alias, expect_version)}
        body = _body(wire.AliasRequest, version=version)
        return read_answer(wire.AliasInfo, self._send("PUT", path, body=body, headers=headers))

    def remove_alias(self, model_id: str, alias: str) -> None:
        """Remove an alias; that a repeated request does not find it means that an earlier did."""
        api = self.counting_anew()
        try:
            api._send("DELETE", _alias(model_id, alias))
        except ResourceNotFound as error:
            if error.code != "alias_not_found" or api.counter.count == 1:
                raise

    def _alias_etag(self, path: str, alias: str, expected: str) -> str:
        response = self._get(path)
        found = read_answer(wire.AliasInfo, response).version
        if found != expected:
            raise ResourceConflict(f"The alias {alias!r} points at {found!r}, not {expected!r}.")
        return str(response.headers.get("etag", "*"))

    # Get

    def manifest(self, model_id: str, ref: str) -> bytes:
        """Return the canonical bytes of a manifest; the caller checks their digest."""
        return self._get(f"{_version(model_id, ref)}/manifest").content

    def layout(self, model_id: str, ref: str) -> Layout:
        """Return where a version's bytes lie, with signed URLs."""
        return read_plain(read_layout, self._get(f"{_version(model_id, ref)}/layout"))

    # Push

    def begin_push(self, model_id: str, request: wire.PushRequest) -> wire.PushInfo:
        """Begin a push, or go on with the same one."""
        path = f"{_model(model_id)}/pushes"
        response = self._send("POST", path, body=request, read_timeout_s=120.0)
        return read_answer(wire.PushInfo, response)

    def push_info(self, push_id: str, *, wait_s: int = 0) -> wire.PushInfo:
        """Return how a push stands, waiting while it is being verified."""
        response = self._get(
            _push(push_id), params={"wait_s": wait_s}, read_timeout_s=30.0 + wait_s
        )
        return read_answer(wire.PushInfo, response)

    def begin_uploads(
        self, push_id: str, uploads: Sequence[wire.UploadRequest]
    ) -> list[wire.UploadInfo]:
        """Open uploads, or learn how far they are."""
        body = _body(wire.UploadsRequest, uploads=list(uploads))
        response = self._send("POST", f"{_push(push_id)}/uploads", body=body, read_timeout_s=120.0)
        return read_answer(wire.UploadList, response).uploads

    def targets(self, push_id: str, upload_id: str, numbers: Sequence[int]) -> wire.TargetList:
        """Return fresh URLs of parts."""
        path = f"{_push(push_id)}/uploads/{quote(upload_id, safe='')}/targets"
        body = _body(wire.TargetsRequest, part_numbers=list(numbers))
        return read_answer(wire.TargetList, self._send("POST", path, body=body))

    def finish_push(self, push_id: str) -> wire.PushInfo:
        """Say that everything was uploaded."""
        response = self._send("POST", f"{_push(push_id)}/finish", read_timeout_s=120.0)
        return read_answer(wire.PushInfo, response)

    def drop_push(self, push_id: str) -> None:
        """Drop an open push."""
        self._send("DELETE", _push(push_id))

    # Access

    def tokens(self) -> Iterator[wire.TokenInfo]:
        """Yield tokens without their secrets, newest first."""
        pages = self._pages(wire.TokenList, "/v1/tokens")
        return (token for page in pages for token in page.tokens)

    def create_token(
        self, name: str, *, role: wire.Role, models: Sequence[str], expires_in_s: int | None
    ) -> wire.TokenCreated:
        """Make a token; one, however often the request has to be tried."""
        body = _body(
            wire.TokenRequest,
            name=name,
            role=role,
            models=list(models),
            expires_in_s=expires_in_s,
        )
        headers = {"idempotency-key": uuid.uuid4().hex}
        response = self._send("POST", "/v1/tokens", body=body, headers=headers)
        return read_answer(wire.TokenCreated, response)

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        self._send("DELETE", f"/v1/tokens/{quote(token_id, safe='')}")

    def _pages(self, kind: type[Page], path: str, **params: str | list[str]) -> Iterator[Page]:
        """Yield every page of a list."""
        token: str | None = ""
        while token is not None:
            asked: Query = {**params, "page_size": PAGE_SIZE, "page_token": token}
            page = read_answer(kind, self._get(path, params=asked))
            yield page
            token = page.next_page_token or None

    def _get(
        self,
        path: str,
        *,
        params: Query | None = None,
        read_timeout_s: float = 60.0,
    ) -> httpx.Response:
        return self.session.send(
            "GET", path, counter=self.counter, params=params, read_timeout_s=read_timeout_s
        )

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: wire.Request | None = None,
        headers: dict[str, str] | None = None,
        read_timeout_s: float = 60.0,
    ) -> httpx.Response:
        return self.session.send(
            method,
            path,
            counter=self.counter,
            body=body,
            headers=headers,
            read_timeout_s=read_timeout_s,
        )


def _body(kind: type[Body], **fields: object) -> Body:
    """Make a body, refusing what the service would refuse."""
    from pydantic import ValidationError  # lazy: a get makes none

    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise invalid_fields(error) from error


def invalid_fields(error: ValidationError) -> UsageError:
    """Return the sentence for values that the wire format refuses. Pure."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return UsageError(f"{where or 'The request'}: {first['msg']}.")


def checked(parse: Callable[[str], str], text: str) -> str:
    """Return ``parse(text)``.

    Raises:
        UsageError: the name breaks its rule.
    """
    try:
        return parse(text)
    except names.InvalidName as error:
        raise UsageError(as_sentence(str(error))) from error


def _model(model_id: str) -> str:
    return f"/v1/models/{checked(names.parse_model_id, model_id)}"


def _version(model_id: str, ref: str) -> str:
    return f"{_model(model_id)}/versions/{quote(checked(names.parse_ref, ref), safe='')}"


def _alias(model_id: str, alias: str) -> str:
    return f"{_model(model_id)}/aliases/{quote(checked(names.parse_alias, alias), safe='')}"


def _push(push_id: str) -> str:
    return f"/v1/pushes/{quote(push_id, safe='')}"
