"""`/metrics` for a process that does not serve the HTTP interface: one page, for allowed addresses."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence

from ...model.errors import ConfigurationError
from .prometheus import CONTENT_TYPE

_log = logging.getLogger("mainspring.metrics")

PATIENCE = 10.0
"""Seconds for one request and its answer."""
MOST_BYTES = 16_384
AT_ONCE = 20

_WORDS = {200: "OK", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class MetricsServer:
    """`allow` are the networks that may read the page; without any, only this machine may."""

    def __init__(self, host: str, port: int, allow: Sequence[str], page: Callable[[], Awaitable[bytes]]) -> None:
        self._host, self._port, self._page = host, port, page
        self._allowed = [ipaddress.ip_network(network) for network in allow]
        self._server: asyncio.Server | None = None
        self._answering: dict[asyncio.Task[None], bool] = {}
        """The requests in progress, and whether their address is allowed."""

    @property
    def port(self) -> int:
        """The port it listens on, which the system chooses if the setting is 0."""
        assert self._server is not None, "it listens"
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(self._accepted, self._host, self._port, limit=MOST_BYTES)
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
        allowed = self._is_allowed(writer.get_extra_info("peername"))
        # Refused addresses have a limit of their own, so that they keep no others waiting.
        same_kind = sum(each is allowed for each in self._answering.values())
        self._answering[task] = allowed
        try:
            if same_kind < AT_ONCE:
                async with asyncio.timeout(PATIENCE):
                    await self._serve(reader, writer)
        except TimeoutError:
            writer.transport.abort()  # the client is too slow to read an answer
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone
        except asyncio.CancelledError:
            pass  # this server stops
        finally:
            self._answering.pop(task, None)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
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
