"""The versions that a pushed version says it was made from."""

from sqlalchemy.orm import Session

from ai_model_format.wire import FieldError, Metadata, Parent
from registry_api.access import Caller
from registry_api.catalog import queries as catalog
from registry_api.errors import InvalidRequest


def pin_parents(session: Session, caller: Caller, metadata: Metadata) -> Metadata:
    """Return the metadata with each parent named by its version, so that lineage never moves.

    An alias, ``latest`` or a digest means what it means now.

    Raises:
        InvalidRequest: a parent is no version, or not one that the caller may read; names
            the field.
    """
    parents = [
        _pin(session, caller, index, parent) for index, parent in enumerate(metadata.parents)
    ]
    return metadata.model_copy(update={"parents": parents})


def _pin(session: Session, caller: Caller, index: int, parent: Parent) -> Parent:
    found = None
    if caller.may_use(parent.model_id):
        found = catalog.resolve(session, parent.model_id, parent.version)
    if found is None:
        message = f"there is no version {parent.version!r} of {parent.model_id!r} that you may read"
        raise InvalidRequest(
            f"Parent {parent.model_id}@{parent.version}: {message}.",
            [FieldError(field=f"metadata.parents.{index}", message=message)],
        )
    return Parent(model_id=parent.model_id, version=found.name)
