"""Names that the service and a gateway share: clusters, statistics, headers, paths.

A cluster holds the servers of one version of a model, ``resnet50@v2.4``. A
chain is a cluster that falls back to another when it is empty; the chain
stands in its name, ``resnet50@v2.4>v2.3``, so that it is never edited: a
different chain is a different cluster. Pure.
"""

import hashlib
import re
from dataclasses import dataclass

MODEL_HEADER = "x-ai-model"
VERSION_HEADER = "x-ai-model-version"
USER_HEADER = "x-user-id"
"""Header that keeps a user on one version, unless the gateway names another."""
PATH_PREFIX = "/m/"
METADATA_NAMESPACE = "ai-model"
"""Namespace of an endpoint's metadata in Envoy."""

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class ClusterName:
    """A version of a model as a gateway's cluster, with its fallback if it is a chain."""

    model_id: str
    version: str
    fallback: str | None = None

    def __str__(self) -> str:
        chain = f">{self.fallback}" if self.fallback else ""
        return f"{self.model_id}@{self.version}{chain}"


def parse_cluster_name(text: str) -> ClusterName | None:
    """Read a cluster's name; None if it is not one of a version."""
    model_id, at, rest = text.partition("@")
    version, _, fallback = rest.partition(">")
    return ClusterName(model_id, version, fallback or None) if at and version else None


def stat_name(cluster: str) -> str:
    """Return the name under which a cluster's statistics stand.

    Dots and slashes would be read as levels of the name, so they become ``_``,
    and a few hex digits of the true name keep two clusters apart.
    """
    digits = hashlib.sha256(cluster.encode()).hexdigest()[:8]
    return f"{_NOT_PLAIN.sub('_', cluster)}_{digits}"


def model_path(model_id: str, version: str | None = None) -> str:
    """Return the path under which a gateway serves a model, or one version of it. Pure."""
    return f"{PATH_PREFIX}{model_id}" + (f"@{version}" if version else "")
