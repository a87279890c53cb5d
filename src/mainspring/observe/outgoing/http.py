"""One HTTP request to an address that users gave: never into a private network unless that is allowed, never following
a redirect, and with one deadline for everything together: name, connection, TLS, head and body.

The name is resolved once, every answer is checked, and the connection goes to a checked address while `Host` and the
name in TLS stay those of the URL: the name cannot lead elsewhere in between. At most a few KiB of an answer are read.
The request runs on the event loop, so a server that hangs holds no thread. All of this also holds if the request goes
through an egress proxy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from ...core.ports import HttpAnswer
from ...model.values.address_classes import IPAddress, address_class, may_reach
from ...model.values.web_address import host_of, web_address
from ...version import VERSION
from .egress_proxy import LONGEST_HEAD, EgressProxy, Streams, first_connection, with_tls
from .lookups import Lookups, addresses_of

if TYPE_CHECKING:
    import ssl

EXCERPT = 4 * 1024
"""Bytes that are kept of the body of an answer; the rest is not read."""
MOST_BYTES = 64 * 1024
"""Bytes of an answer that are read in all; a server could send interim answers for ever."""
LONGEST_REASON = 200
KEPT_HEADERS = ("content-type", "retry-after")

_CERTIFICATES = Lookups("certificates")
"""Of its own: names that hang must not use up its thread."""

Resolver = Callable[[str], Awaitable[Sequence[IPAddress]]]


class NotAllowed(OSError):
    """The address is one that requests must not reach."""


class OutgoingHttp:
    """`private` is the setting `private_urls`; `resolver` and `tls` are replaced in tests."""

    def __init__(
        self,
        private: bool,
        resolver: Resolver = addresses_of,
        tls: ssl.SSLContext | None = None,
        proxy: EgressProxy | None = None,
    ) -> None:
        self.private = private
        self._proxy = proxy
        self._resolver = resolver
        self._tls = tls

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, deadline: float) -> HttpAnswer:
        """Send `body` within `deadline` seconds. Raises `OSError` if there is no answer; any status is an answer."""
        return await self._request("POST", url, headers, body, deadline)

    async def get(self, url: str, deadline: float) -> HttpAnswer:
        return await self._request("GET", url, {}, b"", deadline)

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> HttpAnswer:
        began = time.monotonic()
        parts = urlsplit(web_address("url", url))
        exchange = _Exchange(method, parts, headers, body)
        try:
            async with asyncio.timeout(deadline):
                reader, writer = await self._connected(parts, exchange)
                try:
                    await exchange.run(reader, writer)
                finally:
                    writer.transport.abort()  # a polite close waits for the other side
        except TimeoutError:
            if not exchange.status:
                raise TimeoutError(f"{exchange.waits_for} did not answer within {deadline:g} s") from None
        return exchange.answer(time.monotonic() - began)

    async def _connected(self, parts: SplitResult, exchange: _Exchange) -> Streams:
        host, secure = (parts.hostname or "").rstrip("."), parts.scheme == "https"
        allowed = await self._checked(host)
        port = parts.port or (443 if secure else 80)
        context = await self._context() if secure else None
        tls: dict[str, Any] = {"ssl": context, "server_hostname": host} if secure else {}
        proxy = self._proxy

        async def straight(address: IPAddress) -> Streams:
            return await asyncio.open_connection(str(address), port, limit=LONGEST_HEAD, **tls)

        async def through(proxy: EgressProxy, address: IPAddress) -> Streams:
            exchange.waits_for = str(proxy)
            streams = await proxy.connect(address, port)
            exchange.waits_for = host
            return await with_tls(streams, context, host) if context is not None else streams

        return await first_connection(host, allowed, straight if proxy is None else partial(through, proxy))

    async def _checked(self, host: str) -> Sequence[IPAddress]:
        """Every address of the host must be allowed: a mixture is an attempt to slip one through."""
        found = await self._resolver(host)
        for address in found:
            if not may_reach(address, self.private):
                remedy = "" if self.private else "; the setting private_urls allows private addresses"
                raise NotAllowed(f"{host} leads to an address that is {address_class(address)}{remedy}")
        return found

    async def _context(self) -> Any:
        if self._tls is None:
            self._tls = await _CERTIFICATES.call("certificates", _default_context)
        return self._tls


class _Exchange:
    """The request and what came back so far, read by h11: its states and limits are those of the protocol."""

    def __init__(self, method: str, parts: SplitResult, headers: Mapping[str, str], body: bytes) -> None:
        import h11  # most applications send no requests and should not pay for the import

        self._h11 = h11
        self.status = 0
        self.waits_for = parts.hostname or ""
        """The name of whoever has to answer next."""
        self._kept: dict[str, str] = {}
        self._body = bytearray()
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
        fixed = {"host": host_of(parts.geturl()), "user-agent": f"mainspring/{VERSION}", "connection": "close"}
        if method == "POST":
            fixed["content-length"] = str(len(body))
        sent = {**{name.lower(): value for name, value in headers.items()}, "accept-encoding": "identity", **fixed}
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        self._sent = self._connection.send(h11.Request(method=method, target=target, headers=list(sent.items()))) or b""
        self._sent += self._connection.send(h11.Data(data=body)) or b"" if body else b""
        self._sent += self._connection.send(h11.EndOfMessage()) or b""

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send, then read until the answer is complete or enough of it has come. What goes wrong after the head does
        not change the status."""
        try:
            writer.write(self._sent)
            await self._read(reader)
        except (self._h11.RemoteProtocolError, OSError) as error:
            if not self.status:
                raise OSError(f"it gave no usable answer: {str(error)[:LONGEST_REASON]}") from error

    async def _read(self, reader: asyncio.StreamReader) -> None:
        read = 0
        while len(self._body) < EXCERPT:
            event = self._connection.next_event()
            if event is self._h11.NEED_DATA:
                if read >= MOST_BYTES:
                    raise OSError(f"the answer is longer than {MOST_BYTES} bytes")
                data = await reader.read(LONGEST_HEAD)
                if not data and not self.status:
                    raise OSError("the connection was closed before the answer")
                read += len(data)
                self._connection.receive_data(data)
            elif isinstance(event, self._h11.Response):
                self.status = event.status_code
                self._kept = {
                    name.decode("ascii"): value.decode("latin-1")[:200]
                    for name, value in event.headers
                    if name.decode("ascii") in KEPT_HEADERS
                }
            elif isinstance(event, self._h11.Data):
                self._body += event.data
            elif not isinstance(event, self._h11.InformationalResponse):
                return

    def answer(self, seconds: float) -> HttpAnswer:
        return HttpAnswer(self.status, self._kept, bytes(self._body[:EXCERPT]), seconds)


@lru_cache(maxsize=1)
def _default_context() -> Any:
    import ssl

    return ssl.create_default_context()
