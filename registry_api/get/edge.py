"""Edges: caches near the clients that may read objects on the registry's word. Pure.

An edge shares a secret with the registry. The registry signs the path and a time with it, and
the edge checks that before it reads anything. The signature stands in front of the origin's own
query, which the edge passes on untouched, so that both are checked by whom they are meant for.
What an edge expects is written in ``registry_api/edge_config/nginx.conf.template``.

Must not decide who may read an object: a URL is signed only after that was decided.
"""

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import unquote, urlsplit, urlunsplit

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

_SECRET = re.compile(r"[A-Za-z0-9_-]{32,128}", re.ASCII)


class InvalidEdge(ValueError):
    """An edge's settings make no sense."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A cache in front of the origin.

    Attributes:
        name: for people.
        url: scheme, host and port where clients reach it; paths are the origin's.
        secret: shared with the edge; letters, digits, ``_`` and ``-``, 32 at least.
        networks: the clients it is for; empty for all.

    Raises:
        InvalidEdge: the URL is more or less than an origin, or the secret is weak.
    """

    name: str
    url: str
    secret: str = field(repr=False)
    networks: tuple[IPNetwork, ...] = ()

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.username:
            raise InvalidEdge(
                f"the URL of edge {self.name!r} must be like https://edge.example.org"
            )
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise InvalidEdge(f"the URL of edge {self.name!r} must not go on behind the host")
        if not _SECRET.fullmatch(self.secret):
            raise InvalidEdge(
                f"the secret of edge {self.name!r} must be 32 to 128 letters, digits, _ and -"
            )


def choose_edge(edges: Iterable[Edge], client: IPAddress | None) -> Edge | None:
    """Return the edge whose network holds the client most narrowly, the first of equals.

    An edge without networks is for those that no other wants, and for a client
    whose address is not known.
    """
    best: tuple[int, Edge | None] = (-1, None)
    for edge in edges:
        fit = _fit(edge, client)
        if fit > best[0]:
            best = (fit, edge)
    return best[1]


def client_address(
    peer: str | None, forwarded_for: Sequence[str], *, trusted_proxies: Sequence[IPNetwork]
) -> IPAddress | None:
    """Return the address that the request came from, as far as it can be believed.

    ``X-Forwarded-For`` is anybody's claim. Read from its end, where the nearest proxy
    wrote, it is believed as long as the one who says so is a trusted proxy.

    Args:
        peer: who holds the connection; ``None`` or not an address on a Unix socket.
        forwarded_for: values of the header, in order.
        trusted_proxies: networks of our own proxies; empty to ignore the header.
    """
    address = _parse_address(peer or "")
    claims = [claim for value in forwarded_for for claim in value.split(",")]
    while claims and address is not None and _within(address, trusted_proxies):
        claimed = _parse_address(claims.pop())
        if claimed is None:
            return address
        address = claimed
    return address


def edge_url(edge: Edge, origin_url: str, expires_at: datetime) -> str:
    """Return the URL at which ``edge`` serves what ``origin_url`` names, until ``expires_at``.

    The path stays, because the origin's signature covers it; the edge's arguments
    go first, and the origin's follow as they are.
    """
    origin, place = urlsplit(origin_url), urlsplit(edge.url)
    expires = math.floor(expires_at.timestamp())
    signature = sign(edge.secret, unquote(origin.path), expires)
    own = f"edge_expires={expires}&edge_signature={signature}"
    return urlunsplit((place.scheme, place.netloc, origin.path, f"{own}&{origin.query}", ""))


def sign(secret: str, path: str, expires: int) -> str:
    """Return nginx's ``secure_link_md5`` of a decoded path, good until ``expires`` (Unix time).

    MD5 is what nginx has. With the secret behind the message and nothing in it for an
    attacker to choose, its known weaknesses (collisions, extension) do not help to forge one.
    """
    message = f"{expires} {path} {secret}".encode()
    raw = hashlib.md5(message, usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _fit(edge: Edge, client: IPAddress | None) -> int:
    """Return how narrowly an edge is meant for a client: -1 not at all, 0 as for anybody."""
    if not edge.networks:
        return 0
    if client is None:
        return -1
    lengths = [n.prefixlen for n in edge.networks if _within(client, (n,))]
    return 1 + max(lengths) if lengths else -1


def _within(address: IPAddress, networks: Iterable[IPNetwork]) -> bool:
    return any(address in network for network in networks)


def _parse_address(text: str) -> IPAddress | None:
    """Return an address; one of IPv4 written as IPv6 becomes what it means."""
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
