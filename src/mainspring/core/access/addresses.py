"""Where a request comes from: the socket's peer, or what listed proxies say of it.

Anyone can write a forwarding header, so one counts only as far as the hops that wrote it are listed: from the peer
leftwards through the header, until a hop is not a listed proxy. That hop is the client. Which of the two headers the
proxies write is a setting, because a proxy that writes one passes the other through as the client sent it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

import msgspec

from ...model.values.access import network

IPAddress: TypeAlias = IPv4Address | IPv6Address
Headers: TypeAlias = Iterable[tuple[str, str]]

UNIX = "unix"
"""How the list of proxies names a proxy that connects through a Unix socket, which has no address."""

FORWARDING = frozenset(
    {
        "forwarded",
        "x-forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-forwarded-server",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-envoy-external-address",
        "true-client-ip",
        "cf-connecting-ip",
        "fastly-client-ip",
        "via",
    }
)
"""Headers by which proxies pass on who the client is."""

PROXY_HEADERS = FORWARDING | {
    *("cdn-loop", "client-ip", "front-end-https", "max-forwards", "surrogate-capability", "wl-proxy-client-ip"),
    *("do-connecting-ip", "remote-user", "x-bluecoat-via", "x-cloud-trace-context", "x-coming-from", "x-host"),
    *("x-http-host-override", "x-http-via", "x-original-host", "x-originating-ip", "x-queue-start", "x-real-port"),
    *("x-real-scheme", "x-request-start", "x-rewrite-url", "x-scheme", "x-source-ip", "x-url-scheme", "x-varnish"),
}
PROXY_PREFIXES = (
    *("akamai-", "ali-cdn-", "cdn-", "cf-", "cloudfront-", "eo-", "fastly-", "fly-", "incap-", "kong-", "ngrok-"),
    *("proxy-", "ssl-client-", "tailscale-", "x-akamai-", "x-amz-cf-", "x-amzn-", "x-appengine-", "x-arr-"),
    *("x-auth-request-", "x-azure-", "x-cdn-", "x-edge-", "x-envoy-", "x-fd-", "x-forwarded-", "x-forwarder-"),
    *("x-gateway-", "x-goog-authenticated-", "x-goog-iap-", "x-haproxy-", "x-kong-", "x-lb-", "x-nf-", "x-nginx-"),
    *("x-ngrok-", "x-original-", "x-pomerium-", "x-proxy", "x-railway-", "x-remote-", "x-ssl-", "x-sucuri-"),
    *("x-tencent-", "x-traefik-", "x-tunnel-", "x-vercel-"),
)
"""Any of these headers, and any that begins so, means that a proxy stands between the client and this server: written
by nginx, HAProxy, Envoy, Traefik, Kong, Varnish, Squid, IIS, by tunnels, and by the load balancers and networks of the
large clouds. Some write _ for -."""

MOST_HOPS = 64

_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s]*)', re.IGNORECASE)
_WITH_PORT = re.compile(r"\[(?P<six>[^\[\]]+)\](?::\d{1,5})?|(?P<four>\d+\.\d+\.\d+\.\d+):\d{1,5}")


class Networks:
    """A list of networks that addresses can be in; `unix` stands for the other end of a Unix socket."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        self.unix = UNIX in networks
        self._networks = tuple(network("network", text) for text in networks if text != UNIX)

    def __bool__(self) -> bool:
        return self.unix or bool(self._networks)

    def __contains__(self, address: IPAddress | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


class Client(msgspec.Struct, frozen=True):
    """Where a request comes from. `address` is None when that is not known, which is in no network.

    `direct` means: from this machine, without a proxy in between. `key` is what failed logins are counted by.
    """

    address: IPAddress | None
    direct: bool
    key: str


def client_of(peer: str | None, headers: Headers, proxies: Networks, header: str = "x-forwarded-for") -> Client:
    """The client behind this peer of the socket (None: a Unix socket)."""
    given = [(name.lower(), value) for name, value in headers]
    forwarded, through_proxy = any(name in FORWARDING for name, _ in given), passed_on(given)
    address = parse_address(peer)
    listed = proxies.unix if peer is None else address in proxies
    if not forwarded:
        # If loopback is listed as a proxy, remote clients arrive from there.
        direct = address is not None and address.is_loopback and not listed and not through_proxy
        return Client(_unless_loopback(address) if through_proxy else address, direct, _key(address, peer))
    if not listed:
        # A proxy that is not listed: its own address counts, but a loopback address does not make the client local.
        return Client(_unless_loopback(address), False, _key(address, peer))
    hops = _hops(header, [value for name, value in given if name == header])
    return _walk(hops, proxies, address, peer)


def passed_on(headers: Headers) -> bool:
    """Whether a proxy passed on the request, as far as its headers show.

    >>> passed_on([("Host", "localhost"), ("CDN-Loop", "cloudflare")]), passed_on([("Host", "localhost")])
    (True, False)
    """
    names = {name.lower().replace("_", "-") for name, _ in headers}
    return any(name in PROXY_HEADERS or name.startswith(PROXY_PREFIXES) for name in names)


def _walk(hops: list[IPAddress | None], proxies: Networks, address: IPAddress | None, peer: str | None) -> Client:
    """From right to left: each listed hop vouches for the one before it."""
    if not hops:
        return Client(None, False, _key(address, peer))
    last_known = address
    for hop in reversed(hops):
        if hop is None:  # a listed proxy did not give a valid address
            return Client(None, False, _key(last_known, peer))
        last_known = hop
        if hop not in proxies:
            break
    return Client(_unless_loopback(last_known), False, _key(last_known, peer))


def _unless_loopback(address: IPAddress | None) -> IPAddress | None:
    """A loopback address that was passed on is that of another machine, or of a proxy on this one."""
    return None if address is None or address.is_loopback else address


def _key(address: IPAddress | None, peer: str | None) -> str:
    """One host owns a whole /64 of IPv6: it must not get a fresh count for each of its addresses."""
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address) if address is not None else (UNIX if peer is None else "unknown")


# --- reading ----------------------------------------------------------------------------------------------------


def _hops(header: str, values: list[str]) -> list[IPAddress | None]:
    """The hops of the header, in its order. Empty elements are ignored; too many are as good as unreadable ones."""
    if header == "forwarded":
        elements = [element for value in values for element in _elements(value)]
    else:
        elements = [element for value in values for element in value.split(",") if element.strip()]
    read = _forwarded_for if header == "forwarded" else parse_address
    return [read(element) for element in elements] if len(elements) <= MOST_HOPS else [None]


def _elements(value: str) -> list[str]:
    """Split at commas outside quotation marks, from the right: what the proxies next to us wrote is well-formed there,
    and a quotation mark that a client left open further left must not swallow it."""
    parts: list[str] = []
    quoted, end = False, len(value)
    for at in reversed(range(len(value))):
        if value[at] == '"' and value[at - 1 : at] != "\\":
            quoted = not quoted
        elif value[at] == "," and not quoted:
            parts.append(value[at + 1 : end])
            end = at
    parts.append(value[:end])
    return [part.strip() for part in reversed(parts) if part.strip()]


def _forwarded_for(element: str) -> IPAddress | None:
    found: list[str] = _FOR.findall(element)
    if len(found) != 1:
        return None
    return parse_address(re.sub(r"\\(.)", r"\1", found[0].strip('"')))


def parse_address(text: str | None) -> IPAddress | None:
    """An address as sockets and proxies write it, with or without a port; None for anything else.

    >>> parse_address("[2001:db8::7]:8080"), parse_address("::ffff:10.1.2.3"), parse_address("unknown")
    (IPv6Address('2001:db8::7'), IPv4Address('10.1.2.3'), None)
    """
    if text is None:
        return None
    text = text.strip()
    with_port = _WITH_PORT.fullmatch(text)
    if with_port is not None:
        text = with_port["six"] or with_port["four"]
    try:
        address = ip_address(text.partition("%")[0])  # a zone, as in fe80::1%eth0, is of no use to anyone else
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
