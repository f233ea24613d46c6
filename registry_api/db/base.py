"""Column types and the base class that all tables share. Must not know any table."""

import uuid
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import BigInteger, DateTime, Identity, LargeBinary, MetaData, Text, Uuid, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.types import TypeDecorator

from ai_model_format.digest import Digest, digest_from_raw, raw_of

CONSTRAINT_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class RawDigest(TypeDecorator[str]):
    """A digest, kept as its 32 bytes: half of what its text would take in each index."""

    impl = LargeBinary(32)
    cache_ok = True

    def process_bind_param(self, value: Digest | None, dialect: Dialect) -> bytes | None:
        """Turn ``sha256:<hex>`` into bytes."""
        return None if value is None else raw_of(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Digest | None:
        """Turn bytes into ``sha256:<hex>``."""
        return None if value is None else digest_from_raw(bytes(value))


class Row(DeclarativeBase):
    """Base of all table classes; their names end in ``Row``."""

    metadata = MetaData(naming_convention=CONSTRAINT_NAMES)


ByteOrderedText = Text(collation="C")
"""Text that sorts by bytes, so that keyset pages do not depend on the server's locale."""

Id = Annotated[int, mapped_column(BigInteger, Identity(always=True), primary_key=True)]
RandomId = Annotated[uuid.UUID, mapped_column(Uuid, primary_key=True, default=uuid.uuid4)]
Name = Annotated[str, mapped_column(ByteOrderedText)]
Words = Annotated[str, mapped_column(Text)]
DigestColumn = Annotated[str, mapped_column(RawDigest)]
Bytes = Annotated[int, mapped_column(BigInteger)]
Json = Annotated[Any, mapped_column(JSONB(none_as_null=True))]
Moment = Annotated[datetime, mapped_column(DateTime(timezone=True))]
Created = Annotated[datetime, mapped_column(DateTime(timezone=True), server_default=func.now())]
