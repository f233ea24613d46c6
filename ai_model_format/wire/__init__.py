"""HTTP bodies, shared by the service and the client.

Requests forbid fields they do not know, so that a typing mistake is an error;
responses ignore them, so that an older client talks to a newer service. Times
are RFC 3339 UTC, sizes bytes, digests ``sha256:<hex>``. Must not hold logic
beyond checking values.

Its modules are imported when a name of theirs is first asked for: a get needs two of
them, and building the classes of all takes longer than its requests.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ai_model_format.wire.access import (
        Identity,
        Role,
        TokenCreated,
        TokenInfo,
        TokenList,
        TokenRequest,
    )
    from ai_model_format.wire.base import (
        MAX_JSON_DEPTH,
        MAX_METADATA_BYTES,
        MAX_PAGE_SIZE,
        AliasName,
        DigestText,
        FieldError,
        FilePath,
        JsonObject,
        ModelId,
        Problem,
        Ref,
        Request,
        Response,
        ShortText,
        Size,
        Text,
        VersionName,
        check_json,
        check_text,
    )
    from ai_model_format.wire.get import FileLayout, LayoutInfo, ObjectSource
    from ai_model_format.wire.lineage import (
        MAX_LINEAGE_DEPTH,
        MAX_LINEAGE_NODES,
        Direction,
        LineageEdge,
        LineageInfo,
        LineageName,
        LineageNode,
    )
    from ai_model_format.wire.push import (
        MissingChunks,
        PartTarget,
        PlainFile,
        PushInfo,
        PushRequest,
        PushState,
        TargetList,
        TargetsRequest,
        UploadContent,
        UploadInfo,
        UploadList,
        UploadRequest,
        UploadsRequest,
    )
    from ai_model_format.wire.routing import (
        Address,
        BasisPoints,
        EndpointInfo,
        EndpointList,
        EndpointRequest,
        FiguresRequest,
        GatewayInfo,
        GatewayList,
        LoadedInfo,
        LoadedVersion,
        RollbackRequest,
        RolloutAction,
        RolloutFigures,
        RolloutInfo,
        RolloutRequest,
        RolloutState,
        RouteChangeKind,
        RouteHistory,
        RouteInfo,
        RouteRequest,
        ShareInfo,
        ShareRequest,
        StandbyInfo,
        VersionFigures,
    )
    from ai_model_format.wire.versions import (
        AliasInfo,
        AliasList,
        AliasRequest,
        Dataset,
        FileInfo,
        FindRequest,
        Metadata,
        ModelInfo,
        ModelPage,
        Parent,
        VersionInfo,
        VersionPage,
        VersionSummary,
        YankRequest,
    )

__all__ = [
    "MAX_JSON_DEPTH",
    "MAX_LINEAGE_DEPTH",
    "MAX_LINEAGE_NODES",
    "MAX_METADATA_BYTES",
    "MAX_PAGE_SIZE",
    "Address",
    "AliasInfo",
    "AliasList",
    "AliasName",
    "AliasRequest",
    "BasisPoints",
    "Dataset",
    "DigestText",
    "Direction",
    "EndpointInfo",
    "EndpointList",
    "EndpointRequest",
    "FieldError",
    "FiguresRequest",
    "FileInfo",
    "FileLayout",
    "FilePath",
    "FindRequest",
    "GatewayInfo",
    "GatewayList",
    "Identity",
    "JsonObject",
    "LayoutInfo",
    "LineageEdge",
    "LineageInfo",
    "LineageName",
    "LineageNode",
    "LoadedInfo",
    "LoadedVersion",
    "Metadata",
    "MissingChunks",
    "ModelId",
    "ModelInfo",
    "ModelPage",
    "ObjectSource",
    "Parent",
    "PartTarget",
    "PlainFile",
    "Problem",
    "PushInfo",
    "PushRequest",
    "PushState",
    "Ref",
    "Request",
    "Response",
    "Role",
    "RollbackRequest",
    "RolloutAction",
    "RolloutFigures",
    "RolloutInfo",
    "RolloutRequest",
    "RolloutState",
    "RouteChangeKind",
    "RouteHistory",
    "RouteInfo",
    "RouteRequest",
    "ShareInfo",
    "ShareRequest",
    "ShortText",
    "Size",
    "StandbyInfo",
    "TargetList",
    "TargetsRequest",
    "Text",
    "TokenCreated",
    "TokenInfo",
    "TokenList",
    "TokenRequest",
    "UploadContent",
    "UploadInfo",
    "UploadList",
    "UploadRequest",
    "UploadsRequest",
    "VersionFigures",
    "VersionInfo",
    "VersionName",
    "VersionPage",
    "VersionSummary",
    "YankRequest",
    "check_json",
    "check_text",
]

_MODULES = ("base", "versions", "get", "push", "access", "lineage", "routing")
"""In the order they are searched: what most commands need comes first."""


def __getattr__(name: str) -> Any:
    """Return a body from the module that has it, and keep it here."""
    if name in __all__:
        for module in _MODULES:
            found = getattr(import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
