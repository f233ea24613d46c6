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
    status, code, title = 422, "invalid_request", "The request is not valid"


class InvalidManifestSent(RegistryError):
    status, code, title = 422, "invalid_manifest", "The manifest is not valid"


class Unauthenticated(RegistryError):
    status, code, title = 401, "unauthenticated", "A valid token is needed"
    headers: ClassVar[dict[str, str]] = {"WWW-Authenticate": "Bearer"}


class Forbidden(RegistryError):
    status, code, title = 403, "forbidden", "The token does not allow this"


class ModelNotFound(RegistryError):
    status, code, title = 404, "model_not_found", "No such model"

    def __init__(self, model_id: str) -> None:
        super().__init__(f"there is no model {model_id!r}")


class VersionNotFound(RegistryError):
    status, code, title = 404, "version_not_found", "No such version"

    def __init__(self, model_id: str, ref: str) -> None:
        super().__init__(f"model {model_id!r} has no version or alias {ref!r}")


class FileNotFound(RegistryError):
    status, code, title = 404, "file_not_found", "No such file"


class AliasNotFound(RegistryError):
    status, code, title = 404, "alias_not_found", "No such alias"


class PushNotFound(RegistryError):
    status, code, title = 404, "push_not_found", "No such push"

    def __init__(self) -> None:
        super().__init__("there is no such push of yours; begin it again")


class UploadNotFound(RegistryError):
    status, code, title = 404, "upload_not_found", "No such upload"


class TokenNotFound(RegistryError):
    status, code, title = 404, "token_not_found", "No such token"


class ObjectMissing(RegistryError):
    status, code, title = 404, "object_not_found", "No such object"


class VersionConflict(RegistryError):
    status, code, title = 409, "version_conflict", "The version exists with other bytes"

    def __init__(self, model_id: str, version: str) -> None:
        super().__init__(
            f"version {version!r} of model {model_id!r} exists with other bytes and stays as it is;"
            " push under another version name"
        )


class NameConflict(RegistryError):
    status, code, title = 409, "name_conflict", "A version and an alias cannot share a name"


class UploadIncompleteYet(RegistryError):
    status, code, title = 409, "upload_incomplete", "Not everything was uploaded"


class UploadConflict(RegistryError):
    status, code, title = 409, "upload_conflict", "The upload must be begun again"


class PushNotOpen(RegistryError):
    status, code, title = 409, "push_not_open", "The push is not open"


class PreconditionFailed(RegistryError):
    status, code, title = 412, "precondition_failed", "It has changed in the meantime"


class PayloadTooLarge(RegistryError):
    status, code, title = 413, "payload_too_large", "The body is too large"


class RangeNotSatisfiable(RegistryError):
    status, code, title = 416, "range_not_satisfiable", "No byte of the range exists"


class IntegrityFailed(RegistryError):
    """Stored bytes have another digest than was claimed; ``errors`` names files and chunks."""

    status, code, title = 409, "integrity_failed", "The bytes have another digest"


class StoreNotAvailable(RegistryError):
    status, code, title = 503, "store_unavailable", "The object store does not answer"
    headers: ClassVar[dict[str, str]] = {"Retry-After": "2"}


class DatabaseNotAvailable(RegistryError):
    status, code, title = 503, "database_unavailable", "The database does not answer"
    headers: ClassVar[dict[str, str]] = {"Retry-After": "2"}


class StoreIsFull(RegistryError):
    status, code, title = 507, "store_full", "The object store is full"
