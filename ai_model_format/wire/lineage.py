"""Lineage: what a version was made from, and what was made from it."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from ai_model_format.wire.base import Response
from ai_model_format.wire.versions import Dataset

MAX_LINEAGE_DEPTH = 1000
MAX_LINEAGE_NODES = 1000

Direction = Literal["up", "down", "both"]


class LineageNode(Response):
    """A version in a lineage."""

    model_id: str
    version: str
    manifest_digest: str
    created_at: datetime
    created_by: str
    yanked_at: datetime | None = None
    dataset: Dataset | None = None
    git_commit: str | None = None
    depth: Annotated[
        int,
        Field(
            description="Generations from the version asked for: below 0 for what it was made"
            " from, above 0 for what was made from it"
        ),
    ]


class LineageName(Response):
    """A node, by its name."""

    model_id: str
    version: str


class LineageEdge(Response):
    """``child`` was made from ``parent``; both are nodes."""

    parent: LineageName
    child: LineageName


class LineageInfo(Response):
    """The lineage of a version, of what the caller may read."""

    model_id: str
    version: str
    direction: Direction
    nodes: Annotated[list[LineageNode], Field(description="The farthest ancestor first")]
    edges: list[LineageEdge]
    cut: Annotated[bool, Field(description="More lies beyond depth or max_nodes")]
