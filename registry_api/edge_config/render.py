"""Fill the template in. Pure, but for reading the template that lies beside this module.

Only ``${EDGE_...}`` is replaced, as ``envsubst`` does it in the stock nginx image, so that both
give the same configuration for the same words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import urlsplit

from registry_api.get.edge import Edge

_WORD = re.compile(r"\$\{(EDGE_[A-Z_]+)\}")
_SIZE = re.compile(r"[1-9][0-9]*[kmg]?", re.ASCII)
_TIME = re.compile(r"[1-9][0-9]*(?:s|m|h|d|M|y)", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9._:/*\[\]@%+ -]+", re.ASCII)


class InvalidEdgeConfig(ValueError):
    """A value does not fit into the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeConfig:
    """What an operator decides. Sizes and times are written as nginx does: ``200g``, ``30d``.

    Attributes:
        origin: scheme, host and port that the registry signs for: S3's public endpoint, or the
            registry's own address where it keeps the objects.
        secret: shared with the registry.
        listen: where nginx listens, as its ``listen`` takes it.
        data_dir: the cache and temporary files, on one file system, writable by nginx.
        cache_size: the most that the cache takes.
        min_free: what stays free on the file system; kept by removing what was used least lately.
        inactive: a slice that nobody asks for in this time goes.
        valid: a slice older than this is fetched anew; objects never change, so that only a
            rule about how long copies may live needs it short.
        slice_size: objects are fetched and kept in pieces of this size.
        origin_address: where to connect, when not where ``origin`` says; with ``resolve`` behind
            it, nginx (1.27.3 or newer) follows the name's changes.
        origin_ca: certificates to trust for an https origin.
        resolver: DNS server for ``resolve``.
        include: files for nginx's ``server`` block: certificates, allow and deny.
        workers: worker processes.
        access_log: file, or ``/dev/stdout``.
    """

    origin: str
    secret: str
    data_dir: str
    listen: str = "127.0.0.1:8090"
    cache_size: str = "100g"
    min_free: str = "5g"
    inactive: str = "30d"
    valid: str = "10y"
    slice_size: str = "4m"
    origin_address: str = ""
    origin_ca: str = "/etc/ssl/certs/ca-certificates.crt"
    resolver: str = "127.0.0.1"
    include: str = "/etc/nginx/edge.d/*.conf"
    workers: str = "auto"
    access_log: str = "/dev/stdout"


def render(config: EdgeConfig) -> str:
    """Return nginx's configuration.

    Raises:
        InvalidEdgeConfig: a value would not mean to nginx what it says.
        InvalidEdge: the origin or the secret is none.
    """
    return substitute(template(), words(config))


def template() -> str:
    """Return the text of the template."""
    return (files(__package__) / "nginx.conf.template").read_text(encoding="utf-8")


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of ``${EDGE_...}``.

    Raises:
        KeyError: the template has a word that ``values`` lacks.
    """
    return _WORD.sub(lambda match: values[match.group(1)], text)


def words(config: EdgeConfig) -> dict[str, str]:
    """Return the value of every word of the template, checked.

    Raises:
        InvalidEdgeConfig: a value would not mean to nginx what it says.
        InvalidEdge: the origin or the secret is none.
    """
    Edge(name="origin", url=config.origin, secret=config.secret)
    origin = urlsplit(config.origin)
    port = origin.port or {"http": 80, "https": 443}[origin.scheme]
    values = {
        "EDGE_ORIGIN_SCHEME": origin.scheme,
        "EDGE_ORIGIN_HOST": origin.netloc,
        "EDGE_ORIGIN_NAME": origin.hostname or "",
        "EDGE_ORIGIN_ADDRESS": config.origin_address or f"{_bracketed(origin.hostname)}:{port}",
        "EDGE_ORIGIN_CA": config.origin_ca,
        "EDGE_SECRET": config.secret,
        "EDGE_LISTEN": config.listen,
        "EDGE_DATA_DIR": config.data_dir,
        "EDGE_CACHE_SIZE": _matching(_SIZE, config.cache_size, "cache size"),
        "EDGE_MIN_FREE": _matching(_SIZE, config.min_free, "free space"),
        "EDGE_INACTIVE": _matching(_TIME, config.inactive, "time without use"),
        "EDGE_VALID": _matching(_TIME, config.valid, "time of validity"),
        "EDGE_SLICE_SIZE": _matching(_SIZE, config.slice_size, "slice size"),
        "EDGE_RESOLVER": config.resolver,
        "EDGE_INCLUDE": config.include,
        "EDGE_WORKERS": config.workers,
        "EDGE_ACCESS_LOG": config.access_log,
    }
    for word, value in values.items():
        _matching(_PLAIN, value, word)
    return values


def _matching(pattern: re.Pattern[str], value: str, what: str) -> str:
    if not pattern.fullmatch(value):
        raise InvalidEdgeConfig(f"{value!r} cannot stand as {what} in nginx's configuration")
    return value


def _bracketed(host: str | None) -> str:
    return f"[{host}]" if host and ":" in host else host or ""
