"""Choosing an edge and signing for it."""

import re
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_api.get.edge import (
    Edge,
    InvalidEdge,
    choose_edge,
    client_address,
    edge_url,
    sign,
)

ROOT = Path(__file__).parents[2]
SECRET = "0123456789abcdef0123456789abcdef"
EXPIRES_AT = datetime(2030, 1, 2, 3, 4, 5, 900_000, tzinfo=UTC)


def edge(name: str, *networks: str) -> Edge:
    return Edge(name, f"https://{name}.example.org", SECRET, tuple(map(ip_network, networks)))


@pytest.mark.parametrize(
    ("client", "chosen"),
    [
        ("10.1.2.3", "rack"),
        ("10.1.9.9", "site"),
        ("10.9.9.9", "everyone"),
        ("2001:db8::7", "six"),
        ("::ffff:10.1.2.3", "everyone"),  # client_address turns it into IPv4 first
        (None, "everyone"),
    ],
)
def test_the_narrowest_network_wins(client: str | None, chosen: str) -> None:
    edges = [
        edge("everyone"),
        edge("site", "192.168.0.0/16", "10.1.0.0/16"),
        edge("rack", "10.1.2.0/24"),
        edge("six", "2001:db8::/32"),
    ]
    found = choose_edge(edges, ip_address(client) if client else None)
    assert found is not None
    assert found.name == chosen


def test_nobody_is_sent_to_an_edge_of_another_network() -> None:
    assert choose_edge([edge("site", "10.0.0.0/8")], ip_address("192.0.2.1")) is None
    assert choose_edge([edge("site", "10.0.0.0/8")], None) is None
    assert choose_edge([], ip_address("192.0.2.1")) is None


@pytest.mark.parametrize(
    ("peer", "header", "trusted", "address"),
    [
        ("192.0.2.1", ["10.1.2.3"], [], "192.0.2.1"),
        ("192.0.2.1", ["10.1.2.3"], ["10.0.0.0/8"], "192.0.2.1"),
        ("127.0.0.1", ["10.1.2.3"], ["127.0.0.0/8"], "10.1.2.3"),
        ("127.0.0.1", ["6.6.6.6, 10.1.2.3"], ["127.0.0.0/8"], "10.1.2.3"),
        ("127.0.0.1", ["6.6.6.6", "10.1.2.3, 127.0.0.9"], ["127.0.0.0/8"], "10.1.2.3"),
        ("127.0.0.1", [], ["127.0.0.0/8"], "127.0.0.1"),
        ("127.0.0.1", ["nonsense"], ["127.0.0.0/8"], "127.0.0.1"),
        ("::ffff:10.1.2.3", [], [], "10.1.2.3"),
        ("testclient", ["10.1.2.3"], ["0.0.0.0/0"], None),
        (None, ["10.1.2.3"], ["0.0.0.0/0"], None),
    ],
)
def test_a_forwarded_address_is_believed_from_trusted_proxies_alone(
    peer: str | None, header: list[str], trusted: list[str], address: str | None
) -> None:
    networks = [ip_network(network) for network in trusted]
    found = client_address(peer, header, trusted_proxies=networks)
    assert found == (ip_address(address) if address else None)


def test_the_origins_part_stays_as_it_was_signed() -> None:
    query = "X-Amz-Credential=a%2Fb&X-Amz-Signature=0f&x=%20+"
    origin = f"http://s3.internal:9000/bucket/objects/sha256/ab/cd/x?{query}"
    url = urlsplit(edge_url(edge("near"), origin, EXPIRES_AT))
    assert (url.scheme, url.netloc) == ("https", "near.example.org")
    assert url.path == "/bucket/objects/sha256/ab/cd/x"
    own, _, rest = url.query.partition("&X-Amz-Credential")
    assert "&X-Amz-Credential" + rest == "&" + query
    expires = int(EXPIRES_AT.timestamp())
    assert parse_qs(own) == {
        "edge_expires": [str(expires)],
        "edge_signature": [sign(SECRET, url.path, expires)],
    }
    assert expires <= EXPIRES_AT.timestamp()


def test_an_escaped_path_is_signed_as_nginx_reads_it() -> None:
    plain = edge_url(edge("near"), "http://o/v1/objects/sha256:ab?x=1", EXPIRES_AT)
    escaped = edge_url(edge("near"), "http://o/v1/objects/sha256%3Aab?x=1", EXPIRES_AT)
    assert urlsplit(plain).query == urlsplit(escaped).query


@given(
    st.tuples(st.text("abc", max_size=3), st.integers(0, 99)),
    st.tuples(st.text("abc", max_size=3), st.integers(0, 99)),
)
def test_another_path_or_time_has_another_signature(
    one: tuple[str, int], other: tuple[str, int]
) -> None:
    same = sign(SECRET, *one) == sign(SECRET, *other)
    assert same == (one == other)
    assert sign(SECRET, *one) != sign(SECRET[::-1], *one)


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("edge.example.org", SECRET),
        ("ftp://edge.example.org", SECRET),
        ("https://edge.example.org/cache", SECRET),
        ("https://edge.example.org?x=1", SECRET),
        ("https://user@edge.example.org", SECRET),
        ("https://edge.example.org", "short"),
        ("https://edge.example.org", SECRET + '"; }'),
    ],
)
def test_an_edge_that_cannot_work_is_refused(url: str, secret: str) -> None:
    with pytest.raises(InvalidEdge):
        Edge("near", url, secret)


def test_the_secret_is_not_shown() -> None:
    assert SECRET not in repr(edge("near"))


def test_no_server_of_ours_believes_forwarded_addresses_by_itself() -> None:
    """uvicorn would, from 127.0.0.1, and no setting of ours could take it back."""
    sources = [path.read_text() for path in (ROOT / "registry_api").rglob("*.py")]
    starts = [text for text in sources if re.search(r"uvicorn\.(run|Config)\(", text)]
    assert starts
    assert all("proxy_headers=False" in text for text in starts)
