"""`/metrics` for a process that does not serve the HTTP interface: one page, for allowed addresses."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence

from ...model.errors import ConfigurationError
from .prometheus import CONTENT_TYPE

_log = logging.getLogger("mainspring.metrics")

PATIENCE = 10.0
"""Seconds for one request and its answer."""
MOST_BYTES = 16_384
AT_ONCE = 64
"""Connections of allowed addresses, and as many of others. For one more, the one that has waited longest for the head
of its request is closed."""
BACKLOG = 50
"""Connections that are accepted in one turn: fewer than `AT_ONCE`, so that each can send its request before it may have
to make room."""

_WORDS = {200: "OK", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class _Request:
    """A request in progress: whether its address is allowed, and whether its head has arrived."""

    def __init__(self, allowed: bool) -> None:
        self.allowed, self.complete = allowed, False


class MetricsServer:
    """`allow` are the networks that may read the page; without any, only this machine may."""

    def __init__(self, host: str, port: int, allow: Sequence[str], page: Callable[[], Awaitable[bytes]]) -> None:
        self._host, self._port, self._page = host, port, page
        self._allowed = [ipaddress.ip_network(network) for network in allow]
        self._server: asyncio.Server | None = None
        self._answering: dict[asyncio.Task[None], _Request] = {}
        """The requests in progress, oldest first."""

    @property
    def port(self) -> int:
        """The port it listens on, which the system chooses if the setting is 0."""
        assert self._server is not None, "it listens"
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._accepted, self._host, self._port, limit=MOST_BYTES, backlog=BACKLOG
            )
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror or error}; choose another metrics_port"
            ) from None
        _log.info("metrics on http://%s:%d/metrics", self._host, self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._answering):
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "it runs as a task"
        request = _Request(self._is_allowed(writer.get_extra_info("peername")))
        has_room = self._make_room(request.allowed)
        self._answering[task] = request
        try:
            async with asyncio.timeout(PATIENCE):
                if has_room:
                    await self._serve(request, reader, writer)
                writer.close()
                await writer.wait_closed()
        except TimeoutError:
            pass  # the client is too slow to send its request, or to read the answer
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone
        except asyncio.CancelledError:
            pass  # this server stops, or another request takes the place
        finally:
            self._answering.pop(task, None)
            writer.transport.abort()

    def _make_room(self, allowed: bool) -> bool:
        """Whether there is a place for one more. Refused addresses have places of their own, so that they keep no
        others waiting."""
        same_kind = [task for task, request in self._answering.items() if request.allowed is allowed]
        if len(same_kind) < AT_ONCE:
            return True
        unsent = next((task for task in same_kind if not self._answering[task].complete), None)
        if unsent is None:
            return False
        del self._answering[unsent]
        return unsent.cancel()

    async def _serve(self, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        request.complete = True
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        status, body = await self._answer(writer, method, path)
        lines = [
            f"HTTP/1.1 {status} {_WORDS[status]}",
            f"Content-Type: {CONTENT_TYPE}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            "X-Content-Type-Options: nosniff",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body))
        await writer.drain()

    async def _answer(self, writer: asyncio.StreamWriter, method: str, path: str) -> tuple[int, bytes]:
        if not self._is_allowed(writer.get_extra_info("peername")):
            return 403, b"this address is not in sys_allow\n"
        if path != "/metrics":
            return 404, b"there is only /metrics\n"
        if method not in ("GET", "HEAD"):
            return 405, b"there is only GET\n"
        try:
            return 200, await self._page()
        except Exception as error:
            _log.warning("no metrics: %s: %s", type(error).__name__, error)
            return 503, b"the store cannot be read; the log says why\n"

    def _is_allowed(self, peer: tuple[str, int] | None) -> bool:
        if peer is None:
            return False
        address = ipaddress.ip_address(peer[0].partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if not self._allowed:
            return address.is_loopback
        return any(address in network for network in self._allowed)
