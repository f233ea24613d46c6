"""What versions are found by."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from registry_api.db.base import ByteOrderedText, Name, Row


class FactRow(Row):
    """Something that can be asked for, and a version of which it is true.

    A term is a path into the metadata and what stands there: ``dataset.id=snli``,
    ``git_commit=3f2a9c1``, ``parameters.optimizer.lr=0.1``, ``tags.team=nlp``; and
    ``created_by=ci``. The functions ``fact_term`` and ``fact_terms`` in Postgres write it, for
    publishing and asking alike. Ordered so that one read of the index gives the newest
    versions of a term.
    """

    __tablename__ = "fact"
    term: Mapped[Name] = mapped_column(ByteOrderedText, primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("version.id"), primary_key=True)
