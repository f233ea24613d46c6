"""The parts a running service is made of, opened once a process and handed to every verb."""

import threading
from dataclasses import dataclass, field

from sqlalchemy import Engine

from registry_api.db.session import open_engine, open_unpooled_engine
from registry_api.get.bodies import Bodies
from registry_api.get.edge import Edge
from registry_api.settings import Settings
from registry_api.signing import UrlSigner, load_signer
from registry_api.token_cache import TokenCache
from storage.interface import ObjectStore
from storage.open import open_store
from storage.settings import LocalSettings, S3Settings

MANIFESTS_KEPT = 64 * 1024 * 1024
"""Bytes of manifests in memory."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What services need: settings, Postgres, the store, a key to sign with, known tokens, edges.

    ``manifests`` are those that were asked for last, by digest and whether they are packed.

    ``lock_engine`` opens a new connection each time, for locks that are held while bytes are
    read: from the pool, they could take what those who hold them need to go on.
    ``stopping`` is set when the process is told to end, so that long work leaves off.
    """

    settings: Settings
    engine: Engine
    lock_engine: Engine
    store: ObjectStore
    signer: UrlSigner
    tokens: TokenCache
    edges: tuple[Edge, ...] = ()
    manifests: Bodies = field(default_factory=lambda: Bodies(MANIFESTS_KEPT))
    stopping: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Close the connections to Postgres."""
        self.engine.dispose()


def open_parts(settings: Settings) -> Parts:
    """Connect to Postgres and open the store.

    Raises:
        InvalidEdge: an edge's settings make no sense.
    """
    edges = edges_of(settings)
    engine = open_engine(settings.database_url, pool_size=settings.database_pool_size)
    store = open_store(store_settings(settings))
    lock_engine = open_unpooled_engine(settings.database_url)
    tokens = TokenCache(settings.token_cache_s)
    return Parts(settings, engine, lock_engine, store, load_signer(engine), tokens, edges)


def edges_of(settings: Settings) -> tuple[Edge, ...]:
    """Return the edges that the settings describe. Pure.

    Raises:
        InvalidEdge: one makes no sense.
    """
    return tuple(
        Edge(edge.name, edge.url, edge.secret.get_secret_value(), tuple(edge.networks))
        for edge in settings.edges
    )


def store_settings(settings: Settings) -> LocalSettings | S3Settings:
    """Return the part of the settings that is about the store. Pure."""
    if settings.store == "local":
        return LocalSettings(settings.local_path)
    secret = settings.s3_secret_access_key
    return S3Settings(
        bucket=settings.s3_bucket,
        prefix=settings.s3_prefix,
        endpoint_url=settings.s3_endpoint_url,
        public_endpoint_url=settings.s3_public_endpoint_url,
        region=settings.s3_region,
        access_key_id=settings.s3_access_key_id,
        secret_access_key=secret.get_secret_value() if secret else None,
        addressing_style=settings.s3_addressing_style,
    )
