"""Which version was made from which: the metadata's parents, as rows that lead both ways."""

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from registry_api.db.base import Row


class VersionParentRow(Row):
    """A version was made from another.

    A parent is there before its child is pushed, so its id is smaller. That is checked, and
    with it that no line of parents leads back to where it began.
    """

    __tablename__ = "version_parent"
    __table_args__ = (
        CheckConstraint("parent_id < version_id", name="parent_first"),
        Index("ix_version_parent_parent_id_version_id", "parent_id", "version_id"),
    )
    version_id: Mapped[int] = mapped_column(ForeignKey("version.id"), primary_key=True)
    parent_id: Mapped[int] = mapped_column(ForeignKey("version.id"), primary_key=True)
