"""What can go wrong, named for the fact. ``problems.py`` turns these into answers.

``code`` is part of the interface: programs decide by it. Must not know HTTP beyond the status.
"""

from collections.abc import Sequence
from typing import ClassVar

from ai_model_format.wire import FieldError, Problem


class RegistryError(Exception):
    """Base of every error that a caller is told about.

    Attributes:
        detail: one or two sentences for a person: what is wrong, and what to do.
        errors: the single fields, files or chunks that are wrong.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    title: ClassVar[str] = "The service failed"
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, detail: str, errors: Sequence[FieldError] = ()) -> None:
        self.detail = detail
        self.errors = list(errors)
        super().__init__(detail)

    def problem(self, request_id: str = "") -> Problem:
        """Return the error as RFC 9457 has it."""
        return Problem(
            title=self.title,
            status=self.status,
            code=self.code,
            detail=self.detail,
            request_id=request_id,
            errors=self.errors,
        )


class InvalidRequest(RegistryError):
    """The request breaks a rule of the interface."""

    status, code, title = 422, "invalid_request", "The request is not valid"


class InvalidManifestSent(RegistryError):
    """A manifest, or a file that was to be indexed, breaks a rule."""

    status, code, title = 422, "invalid_manifest", "The manifest is not valid"


class Unauthenticated(RegistryError):
    """No token, or one that is not valid."""

    status, code, title = 401, "unauthenticated", "A valid token is needed"
    headers: ClassVar[dict[str, str]] = {"WWW-Authenticate": "Bearer"}


class Forbidden(RegistryError):
    """The caller is known and may not do this."""

    status, code, title = 403, "forbidden", "The token does not allow this"


class ModelNotFound(RegistryError):
    """No model has this id."""

    status, code, title = 404, "model_not_found", "No such model"

    def __init__(self, model_id: str) -> None:
        super().__init__(f"there is no model {model_id!r}")


class VersionNotFound(RegistryError):
    """A ref means no version of the model."""

    status, code, title = 404, "version_not_found", "No such version"

    def __init__(self, model_id: str, ref: str, near: Sequence[str] = ()) -> None:
        what = (
            "no version that is not yanked" if ref == "latest" else f"no version or alias {ref!r}"
        )
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"model {model_id!r} has {what}{hint}")


class FileNotFound(RegistryError):
    """A version has no file of this path."""

    status, code, title = 404, "file_not_found", "No such file"


class AliasNotFound(RegistryError):
    """A model has no alias of this name."""

    status, code, title = 404, "alias_not_found", "No such alias"


class PushNotFound(RegistryError):
    """No push of the caller has this id; it may have expired."""

    status, code, title = 404, "push_not_found", "No such push"

    def __init__(self) -> None:
        super().__init__("there is no such push of yours; begin it again")


class UploadNotFound(RegistryError):
    """A push has no such upload that takes parts."""

    status, code, title = 404, "upload_not_found", "No such upload"


class TokenNotFound(RegistryError):
    """No token has this id."""

    status, code, title = 404, "token_not_found", "No such token"


class ObjectMissing(RegistryError):
    """The store does not hold an object."""

    status, code, title = 404, "object_not_found", "No such object"


class VersionConflict(RegistryError):
    """A version is immutable, and others' bytes were first."""

    status, code, title = 409, "version_conflict", "The version exists with other bytes"

    def __init__(self, model_id: str, version: str) -> None:
        super().__init__(
            f"version {version!r} of model {model_id!r} exists with other bytes and stays as it is;"
            " push under another version name"
        )


class NameConflict(RegistryError):
    """A ref must mean one thing."""

    status, code, title = 409, "name_conflict", "A version and an alias cannot share a name"


class UploadIncompleteYet(RegistryError):
    """Chunks or parts are still missing; ``errors`` says which."""

    status, code, title = 409, "upload_incomplete", "Not everything was uploaded"


class UploadConflict(RegistryError):
    """The object was published another way, so the upload is void."""

    status, code, title = 409, "upload_conflict", "The upload must be begun again"


class PushNotOpen(RegistryError):
    """A push that was finished takes no more."""

    status, code, title = 409, "push_not_open", "The push is not open"


class IdempotencyKeyReused(RegistryError):
    """The same ``Idempotency-Key`` came with another request before."""

    status, code, title = 422, "idempotency_key_reused", "The key belongs to another request"


class PreconditionFailed(RegistryError):
    """``If-Match`` or ``If-None-Match`` does not hold."""

    status, code, title = 412, "precondition_failed", "It has changed in the meantime"


class PayloadTooLarge(RegistryError):
    """A body is larger than the service takes."""

    status, code, title = 413, "payload_too_large", "The body is too large"


class RangeNotSatisfiable(RegistryError):
    """A range lies behind the end."""

    status, code, title = 416, "range_not_satisfiable", "No byte of the range exists"


class IntegrityFailed(RegistryError):
    """Stored bytes have another digest than was claimed; ``errors`` names files and chunks."""

    status, code, title = 409, "integrity_failed", "The bytes have another digest"


class StoreNotAvailable(RegistryError):
    """The object store cannot be reached now."""

    status, code, title = 503, "store_unavailable", "The object store does not answer"
    headers: ClassVar[dict[str, str]] = {"Retry-After": "2"}


class DatabaseNotAvailable(RegistryError):
    """Postgres cannot be reached now."""

    status, code, title = 503, "database_unavailable", "The database does not answer"
    headers: ClassVar[dict[str, str]] = {"Retry-After": "2"}


class StoreIsFull(RegistryError):
    """The object store takes no more."""

    status, code, title = 507, "store_full", "The object store is full"
