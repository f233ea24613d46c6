"""What an operator can set: environment variables with the prefix ``AI_MODEL_``.

The only module of the service that reads the environment.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, IPvAnyNetwork, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024


class EdgeSettings(BaseModel):
    """An edge: ``docs/edge.md``."""

    name: str
    url: str
    secret: SecretStr
    networks: list[IPvAnyNetwork] = []


class Settings(BaseSettings):
    """Settings of the service. Sizes are bytes."""

    model_config = SettingsConfigDict(env_prefix="AI_MODEL_", extra="ignore", frozen=True)

    database_url: str = "postgresql://postgres@127.0.0.1/ai_model"
    database_pool_size: int = Field(default=20, ge=1, le=1000)

    store: Literal["local", "s3"] = "local"
    local_path: Path = Path("objects")
    s3_bucket: str = "ai-model"
    s3_endpoint_url: str | None = Field(
        default=None, description="Where the service reaches the store"
    )
    s3_public_endpoint_url: str | None = Field(
        default=None, description="Where clients reach the store, when that is another address"
    )
    s3_region: str = "us-east-1"
    s3_access_key_id: str | None = None
    s3_secret_access_key: SecretStr | None = None
    s3_prefix: str = ""
    s3_addressing_style: Literal["auto", "virtual", "path"] = "auto"

    public_url: str | None = Field(
        default=None,
        description="Where clients reach this service; else the address of their request",
    )
    edges: list[EdgeSettings] = Field(
        default=[], description="Caches in front of objects, as JSON: name, url, secret, networks"
    )
    trusted_proxies: list[IPvAnyNetwork] = Field(
        default=[], description="Networks whose X-Forwarded-For says who a client is, as JSON"
    )
    token_cache_s: float = Field(
        default=3,
        ge=0,
        le=60,
        description="Seconds after which a token revoked by another process is refused too",
    )
    anonymous_read: bool = Field(default=False, description="Reads need no token")

    url_expires_s: int = Field(default=3600, ge=1, le=7 * 86400, description="Life of signed URLs")
    push_expires_s: int = Field(
        default=24 * 3600, ge=1, description="Life of a push without a request"
    )
    verify_inline_bytes: int = Field(
        default=64 * MIB, ge=0, description="Pushes up to this size are verified within finish"
    )
    max_body_bytes: int = Field(
        default=128 * MIB, ge=MIB, description="Largest JSON body, unpacked"
    )
