"""From settings to a store."""

from storage.interface import ObjectStore
from storage.local import LocalObjectStore
from storage.settings import LocalSettings, S3Settings


def open_store(settings: LocalSettings | S3Settings) -> ObjectStore:
    """Open the store that ``settings`` describe; makes no request."""
    if isinstance(settings, LocalSettings):
        return LocalObjectStore(settings)
    # boto3 takes half a second to import, which a local store need not pay.
    from storage.s3 import S3ObjectStore

    return S3ObjectStore(settings)
