"""What can go wrong for a caller, one class per fact.

Every error is a sentence, says the way out where there is one, carries its
facts as fields, and knows the exit code the command line ends with. Must not
print or log: that is the caller's.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar


class AiModelError(Exception):
    """Base of every error that this client raises on purpose.

    Attributes:
        sentence: what happened.
        way_out: what to do about it; empty where nothing can be advised.
        exit_code: what a command ends with.
        code: stable word for programs.
    """

    exit_code: ClassVar[int] = 1
    code: str = "error"
    title: ClassVar[str] = "Something went wrong"

    def __init__(self, sentence: str, *, way_out: str = "") -> None:
        self.sentence = sentence
        self.way_out = way_out
        super().__init__(sentence, way_out)

    def __str__(self) -> str:
        return f"{self.sentence} {self.way_out}".strip()

    @property
    def problem(self) -> dict[str, Any]:
        """The error as a problem document (RFC 9457) for ``--json``."""
        document = {"type": "about:blank", "title": self.title, "code": self.code}
        return {**document, "detail": str(self), "exit_code": self.exit_code, **self._fields()}

    def _fields(self) -> dict[str, Any]:
        """Return what this class adds to the problem document."""
        return {}


class UsageError(AiModelError):
    """The caller asked for something that makes no sense."""

    exit_code = 2
    code = "usage"
    title = "Wrong usage"


class NotFound(AiModelError):
    """What was named does not exist."""

    exit_code = 3
    code = "not_found"
    title = "Not found"


class NotAllowed(AiModelError):
    """The token is missing, wrong, or does not reach that far."""

    exit_code = 4
    code = "forbidden"
    title = "Not allowed"


class Conflict(AiModelError):
    """The registry holds something else already."""

    exit_code = 5
    code = "conflict"
    title = "Conflict"


class NetworkError(AiModelError):
    """The registry or the store could not be reached; worth a retry."""

    exit_code = 7
    code = "network"
    title = "Network trouble"


class UntrustedCertificate(NetworkError):
    """A server's certificate is of an authority that is not trusted here, or of another name.

    Trying again does not help, so it is not tried.

    Attributes:
        where: host and port.
    """

    code = "untrusted_certificate"
    title = "Untrusted certificate"

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        super().__init__(
            f"The certificate of {where} is not trusted: {reason}.",
            way_out="Name the authority's certificates (PEM) with SSL_CERT_FILE or `ca_file`.",
        )


class StorageFull(AiModelError):
    """No room, on this machine or in the registry."""

    exit_code = 8
    code = "store_full"
    title = "No room"


class ServiceProblem(AiModelError):
    """The service answered with a problem.

    Mixed into the classes above, so that both the kind and the answer are at hand.

    Attributes:
        status: of HTTP.
        request_id: to find the request in the service's log.
        errors: (field, message) of single fields.
    """

    status: int = 0
    request_id: str = ""
    errors: Sequence[tuple[str, str]] = ()

    def _fields(self) -> dict[str, Any]:
        fields = [{"field": field, "message": message} for field, message in self.errors]
        return {"status": self.status, "request_id": self.request_id, "errors": fields}


class InvalidRequest(ServiceProblem, UsageError):
    """The service refuses what was sent; ``errors`` names the fields."""


class ResourceNotFound(ServiceProblem, NotFound):
    """The service knows no such model, version, alias, push or token."""


class AccessDenied(ServiceProblem, NotAllowed):
    """The service does not let this token do that."""


class ResourceConflict(ServiceProblem, Conflict):
    """The service holds something else, such as the same version with other bytes."""


class ServiceUnavailable(ServiceProblem, NetworkError):
    """The service, or what it stands on, cannot answer now."""


class RegistryFull(ServiceProblem, StorageFull):
    """The registry has no room left, or a quota is used up."""


class NoMatch(NotFound):
    """A layer pattern or file glob selects nothing.

    Attributes:
        pattern: what was asked for.
        near: names that look alike, best first.
    """

    code = "no_match"
    title = "Nothing matches"

    def __init__(self, kind: str, pattern: str, near: Sequence[str], *, way_out: str = "") -> None:
        self.pattern = pattern
        self.near = tuple(near)
        hint = f"Did you mean {', '.join(near)}?" if near else way_out
        super().__init__(f"No {kind} matches {pattern!r}.", way_out=hint)

    def _fields(self) -> dict[str, Any]:
        return {"pattern": self.pattern, "near": list(self.near)}


class PathNotFound(NotFound):
    """A local path that was named does not exist."""

    code = "path_not_found"

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"There is nothing at {path}.")


class PathRefused(UsageError):
    """A local path cannot be part of a version; the sentence says why."""

    code = "path_refused"

    def __init__(self, path: Path, reason: str, *, way_out: str = "") -> None:
        self.path = path
        super().__init__(f"{path} {reason}.", way_out=way_out)

    def _fields(self) -> dict[str, Any]:
        return {"path": str(self.path)}


class FileChanged(Conflict):
    """A file changed on disk while it was being pushed."""

    code = "file_changed"

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"{path} changed while it was being pushed.",
            way_out="Nothing was published; push again when it is written to the end.",
        )

    def _fields(self) -> dict[str, Any]:
        return {"path": str(self.path)}


class IntegrityError(AiModelError):
    """Bytes do not have the digest that the manifest says."""

    exit_code = 6
    code = "integrity_failed"
    title = "Bytes do not match their digest"


class CorruptBytes(IntegrityError):
    """Bytes that a get received are wrong, also when fetched again.

    Attributes:
        file: path inside the version.
        tensors: names of the tensors whose bytes are wrong; empty outside of tensors.
    """

    def __init__(self, file: str, tensors: Sequence[str] = (), *, reason: str = "") -> None:
        self.file = file
        self.tensors = tuple(tensors)
        named = ", ".join(repr(name) for name in tensors[:5])
        what = f"tensor {named} of file {file!r}" if tensors else f"file {file!r}"
        super().__init__(
            f"The stored bytes of {what} do not have the digest that the manifest says"
            f"{': ' + reason if reason else ''}.",
            way_out="Nothing was put in place. Ask the registry's operator to look at its store.",
        )

    def _fields(self) -> dict[str, Any]:
        return {"file": self.file, "tensors": list(self.tensors)}


class PushCorrupt(ServiceProblem, IntegrityError):
    """The service saw other bytes than the push promised; nothing was published."""


class DiskFull(StorageFull):
    """The disk here has less room than is needed.

    Attributes:
        path: on the disk in question.
        needed: bytes.
        free: bytes.
    """

    code = "disk_full"

    def __init__(self, path: Path, *, needed: int, free: int) -> None:
        self.path = path
        self.needed = needed
        self.free = free
        super().__init__(
            f"{path} has {free:,} bytes free and {needed:,} are needed.",
            way_out="Make room or choose another --output.",
        )

    def _fields(self) -> dict[str, Any]:
        return {"path": str(self.path), "needed": self.needed, "free": self.free}


class NotSupported(AiModelError):
    """This installation lacks what the call needs, such as torch."""

    code = "not_supported"
    title = "Not supported"


def as_sentence(text: str) -> str:
    """Return a statement as a sentence: capital and full stop. Names keep how they are written."""
    starts_with_a_word = re.match(r"[a-z]+ ", text)
    capital = text[0].upper() + text[1:] if starts_with_a_word else text
    return capital if capital.endswith((".", "?", "!")) else f"{capital}."


def service_problem(status: int, body: Mapping[str, Any]) -> ServiceProblem:
    """Return the error for a problem document that the service answered. Pure."""
    code = str(body.get("code") or f"http_{status}")
    sentence = str(body.get("detail") or body.get("title") or f"The service answered {status}.")
    kind = PushCorrupt if code == "integrity_failed" else _class_for(status)
    error = kind(as_sentence(sentence), way_out=_WAYS_OUT.get(code, ""))
    error.code = code
    error.status = status
    error.request_id = str(body.get("request_id") or "")
    error.errors = tuple(
        (str(item.get("field", "")), str(item.get("message", "")))
        for item in body.get("errors") or ()
        if isinstance(item, Mapping)
    )
    return error


def _class_for(status: int) -> type[ServiceProblem]:
    if status >= 500 and status != 507:
        return ServiceUnavailable
    return _CLASSES.get(status, ServiceProblem)


_CLASSES: dict[int, type[ServiceProblem]] = {
    400: InvalidRequest,
    401: AccessDenied,
    403: AccessDenied,
    404: ResourceNotFound,
    408: ServiceUnavailable,
    409: ResourceConflict,
    412: ResourceConflict,
    413: InvalidRequest,
    422: InvalidRequest,
    429: ServiceUnavailable,
    507: RegistryFull,
}

_WAYS_OUT = {
    "unauthenticated": "Run `ai-model login` or set AI_MODEL_TOKEN.",
    "forbidden": "Ask for a token with that right.",
    "integrity_failed": "Nothing was published. Push again.",
}
