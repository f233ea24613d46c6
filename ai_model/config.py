"""Settings: argument > environment > config file. The only reader of the environment.

The config file is TOML with the keys ``endpoint``, ``token``, ``cache``, ``connections``,
``max_bandwidth`` and ``ca_file``, at ``$AI_MODEL_CONFIG`` or
``$XDG_CONFIG_HOME/ai-model/config.toml``. A token is bound to the endpoint it was given
with: one from the file is never sent to an endpoint that came from elsewhere.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ai_model.bandwidth import parse_rate
from ai_model.errors import UsageError

DEFAULT_ENDPOINT = "http://127.0.0.1:8080"
MAX_CONNECTIONS = 256
_KEYS = frozenset({"endpoint", "token", "cache", "connections", "max_bandwidth", "ca_file"})


@dataclass(frozen=True, slots=True)
class Config:
    """Where the registry is, and who we are.

    Attributes:
        endpoint: base URL of the registry, without a slash at the end.
        token: secret; ``None`` to ask as nobody.
        cache_dir: where manifests and records of what lies on disk are kept.
        connections: transfers at once; ``None`` adapts to what the network gives.
        max_bandwidth: bytes a second over all of them; ``None`` for no limit.
        ca_file: PEM of the authorities to trust; ``None`` for those of the environment.
    """

    endpoint: str
    token: str | None
    cache_dir: Path
    connections: int | None = None
    max_bandwidth: int | None = None
    ca_file: str | None = None

    def __repr__(self) -> str:
        """Show everything but the token."""
        shown = "set" if self.token else None
        return f"Config(endpoint={self.endpoint!r}, token={shown}, cache_dir={self.cache_dir}, ...)"


def load_config(
    *,
    endpoint: str | None = None,
    token: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config_file: str | os.PathLike[str] | None = None,
    connections: int | str | None = None,
    max_bandwidth: int | str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Return the settings that hold, arguments first.

    Raises:
        UsageError: the endpoint is no URL, a number is none, or the config file cannot be read.
    """
    env = os.environ if environ is None else environ
    named = config_file or env.get("AI_MODEL_CONFIG")
    path = Path(named) if named else config_path(env)
    stored = _read(path, must_exist=bool(named))
    chosen = endpoint or env.get("AI_MODEL_ENDPOINT") or stored.get("endpoint") or DEFAULT_ENDPOINT
    url = parse_endpoint(chosen)
    if not token:
        token = env.get("AI_MODEL_TOKEN") or _token_for(url, stored)
    cache = cache_dir or env.get("AI_MODEL_CACHE") or stored.get("cache") or _cache_path(env)
    lanes = connections or env.get("AI_MODEL_CONNECTIONS") or stored.get("connections")
    rate = max_bandwidth or env.get("AI_MODEL_MAX_BANDWIDTH") or stored.get("max_bandwidth")
    return Config(
        endpoint=url,
        token=token or None,
        cache_dir=Path(cache).expanduser(),
        connections=_connections(lanes),
        max_bandwidth=_bandwidth(rate),
        ca_file=env.get("AI_MODEL_CA_FILE") or stored.get("ca_file"),
    )


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the config file is looked for: ``AI_MODEL_CONFIG``, else below XDG's home."""
    env = os.environ if environ is None else environ
    if named := env.get("AI_MODEL_CONFIG"):
        return Path(named)
    home = env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or Path.home()) / ".config"
    return Path(home) / "ai-model" / "config.toml"


def save_login(endpoint: str, token: str, *, path: Path | None = None) -> Path:
    """Keep endpoint and token in the config file, readable by its owner alone.

    Returns:
        The file.

    Raises:
        UsageError: the endpoint is no URL, or the file that is there cannot be read.
    """
    target = path or config_path()
    values = {**_read(target, must_exist=False), "endpoint": parse_endpoint(endpoint)}
    values["token"] = token
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temp = target.with_name(f".{target.name}.{os.getpid()}")
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("".join(f"{key} = {_toml_text(text)}\n" for key, text in values.items()))
        file.flush()
        os.fsync(file.fileno())
    temp.replace(target)
    return target


def parse_endpoint(text: str) -> str:
    """Return the base URL without a slash at the end.

    Raises:
        UsageError: it is not an http or https URL, or holds a password or a query.
    """
    try:
        parts = urlsplit(text.strip())
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.username or parts.query or parts.fragment:
        raise UsageError(
            f"The endpoint {text!r} is not a URL such as https://models.example.org.",
            way_out="Set --endpoint, AI_MODEL_ENDPOINT or `endpoint` in the config file.",
        )
    return text.strip().rstrip("/")


def _connections(value: int | str | None) -> int | None:
    if value is None or value == "auto":
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_CONNECTIONS):
        raise UsageError(
            f"{text!r} is not a number of connections from 1 to {MAX_CONNECTIONS}.",
            way_out="Set --connections, AI_MODEL_CONNECTIONS or `connections`, or say auto.",
        )
    return int(text)


def _bandwidth(value: int | str | None) -> int | None:
    if value is None:
        return None
    try:
        return parse_rate(str(value))
    except ValueError as error:
        raise UsageError(
            f"The bandwidth {error}.",
            way_out="Set --max-bandwidth, AI_MODEL_MAX_BANDWIDTH or `max_bandwidth`.",
        ) from error


def _token_for(endpoint: str, stored: Mapping[str, str]) -> str | None:
    """Return the file's token if it belongs to ``endpoint``."""
    own = stored.get("endpoint")
    return stored.get("token") if own is None or parse_endpoint(own) == endpoint else None


def _read(path: Path, *, must_exist: bool) -> dict[str, str]:
    try:
        values = _toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if must_exist:
            raise UsageError(f"There is no config file {path}.") from error
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"The config file {path} cannot be read: {error}.") from error
    for key, value in values.items():
        if key not in _KEYS or not isinstance(value, str):
            raise UsageError(
                f"The config file {path} has {key!r}, which is not one of the texts"
                f" {', '.join(sorted(_KEYS))}."
            )
    return values


def _toml(text: str) -> dict[str, Any]:
    import tomllib  # lazy: most machines have no config file

    return tomllib.loads(text)


def _cache_path(env: Mapping[str, str]) -> Path:
    home = env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or Path.home()) / ".cache"
    return Path(home) / "ai-model"


def _toml_text(text: str) -> str:
    """Write a TOML basic string; JSON's escapes are a subset of TOML's."""
    return json.dumps(text, ensure_ascii=True)
