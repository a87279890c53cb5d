"""Connections through the HTTP proxy that the setting `egress_proxy` names, for networks that let nothing else out.

The proxy is asked for a tunnel (CONNECT) to an address that was checked before, never to a name: it cannot be led to
another address than the check saw. TLS is spoken inside the tunnel, with the receiver. The address of the proxy itself
comes from the settings and is not checked.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

from ...model.values.address_classes import IPAddress
from .lookups import addresses_of

if TYPE_CHECKING:
    import ssl

LONGEST_HEAD = 16 * 1024
MOST_ADDRESSES = 8
"""Addresses of one host that are tried: a name must not lead to a thousand connections."""
NEXT_ADDRESS = 4.0
"""Seconds after which the next address of a host is tried, if there is one."""

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})\b")
_AUTHENTICATION_REQUIRED = 407


class EgressProxy:
    """`url` is the setting `egress_proxy`: `http://user:password@proxy.internal:3128`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._credentials = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._credentials = base64.b64encode(pair.encode()).decode()

    def __str__(self) -> str:
        """Its name in errors, without credentials."""
        return f"the egress proxy {self._host}:{self._port}"

    async def connect(self, address: IPAddress, port: int) -> Streams:
        """A tunnel to this address. Raises `OSError` if the proxy gives none."""
        try:
            streams = await first_connection(
                self._host,
                await addresses_of(self._host),
                lambda own: asyncio.open_connection(str(own), self._port, limit=LONGEST_HEAD),
            )
        except OSError as error:
            raise OSError(f"{self} cannot be reached: {error}") from None
        try:
            await self._ask(streams, f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}")
        except BaseException:
            streams[1].transport.abort()
            raise
        return streams

    async def _ask(self, streams: Streams, target: str) -> None:
        reader, writer = streams
        login = f"Proxy-Authorization: Basic {self._credentials}\r\n" if self._credentials else ""
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode("ascii"))
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise OSError(f"{self} closed the connection or sent no usable answer") from None
        found = _STATUS.match(head)
        if found is None:
            raise OSError(f"{self} sent no usable answer: is it an HTTP proxy?")
        status = int(found[1])
        if status == _AUTHENTICATION_REQUIRED:
            given = "did not accept the user and password" if self._credentials else "asks for a user and a password"
            raise OSError(f"{self} {given} of the setting egress_proxy (407)")
        if not 200 <= status < 300:
            raise OSError(f"{self} answered {status} when asked for a connection to {target}")


async def first_connection(
    host: str, addresses: Sequence[IPAddress], connect: Callable[[IPAddress], Awaitable[Streams]]
) -> Streams:
    """A connection to the first address of a host that gives one."""
    problem: OSError | None = None
    addresses = addresses[:MOST_ADDRESSES]
    for place, address in enumerate(addresses, 1):
        try:
            async with asyncio.timeout(NEXT_ADDRESS if place < len(addresses) else None):
                return await connect(address)
        except OSError as error:  # TimeoutError is one too
            problem = error
    raise problem or OSError(f"{host} has no address")


async def with_tls(streams: Streams, context: ssl.SSLContext, name: str) -> Streams:
    """TLS inside a tunnel. What came unencrypted before is dropped with the old reader, so that a proxy cannot slip in
    the beginning of an answer."""
    loop, tunnel = asyncio.get_running_loop(), streams[1]
    reader = asyncio.StreamReader(limit=LONGEST_HEAD, loop=loop)
    protocol = _InsideTunnel(reader, tunnel)
    try:
        transport = await loop.start_tls(tunnel.transport, protocol, context, server_hostname=name)
    except BaseException:
        tunnel.transport.abort()
        raise
    if transport is None:
        raise OSError("the connection was closed during the TLS handshake")
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class _InsideTunnel(asyncio.StreamReaderProtocol):
    """Holds the writer of the tunnel, because a writer that is garbage-collected closes its connection."""

    def __init__(self, reader: asyncio.StreamReader, tunnel: asyncio.StreamWriter) -> None:
        super().__init__(reader)
        self._tunnel = tunnel
