"""Versions as lists show them. Pure."""

from typing import Any

from ai_model_format.wire import Dataset, VersionSummary


def summary_of(model_id: str, version: Any, aliases: list[str]) -> VersionSummary:
    """Return what a list shows of a version's row."""
    return VersionSummary(
        model_id=model_id,
        version=version.name,
        manifest_digest=version.manifest_digest,
        size=version.size,
        created_at=version.created_at,
        created_by=version.created_by,
        yanked_at=version.yanked_at,
        dataset=dataset_of(version.dataset_id, version.dataset_version),
        git_commit=version.git_commit,
        aliases=aliases,
    )


def dataset_of(dataset_id: str | None, version: str | None) -> Dataset | None:
    """Return the data a version was made from, ``None`` where it names none."""
    return None if dataset_id is None else Dataset(id=dataset_id, version=version)
