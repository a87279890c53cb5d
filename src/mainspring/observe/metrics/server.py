"""`/metrics` for a process that does not serve the HTTP interface, for allowed addresses; and `/healthz` and `/readyz`,
for probes."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from ...model.errors import ConfigurationError
from .access import MetricsAccess
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

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)")


class _Request:
    """A request in progress: whether its address is allowed, and whether its head has arrived."""

    def __init__(self, allowed: bool) -> None:
        self.allowed, self.complete = allowed, False


class MetricsServer:
    """`troubles` names the parts of the process that do not work."""

    def __init__(
        self,
        host: str,
        port: int,
        access: MetricsAccess,
        page: Callable[[], Awaitable[bytes]],
        troubles: Callable[[], Awaitable[list[str]]],
    ) -> None:
        self._host, self._port, self._access, self._page, self._troubles = host, port, access, page, troubles
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
        request = _Request(self._access.knows(_address(writer)))
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
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        request.complete = True
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        status, body, more = await self._answer(_address(writer), method, path, lines)
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {CONTENT_TYPE}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in more.items()),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body))
        await writer.drain()

    async def _answer(
        self, peer: str | None, method: str, path: str, lines: list[str]
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, body, and further headers."""
        found = [_HEADER.fullmatch(line) for line in lines]
        headers = [(each[1], each[2].strip(" \t")) for each in found if each is not None]
        if len(headers) < len(lines):  # another reader might see other headers in them
            return 400, b"a header is malformed\n", {}
        health = path in ("/healthz", "/readyz")
        if health:
            refusal = self._access.health_refusal(peer, headers)
        else:
            refusal = await self._access.refusal(peer, method, headers)
        if refusal is not None:
            return refusal.status, f"{refusal.message}\n".encode(), refusal.headers
        if path != "/metrics" and not health:
            return 404, b"there are only /metrics, /healthz and /readyz\n", {}
        if method not in ("GET", "HEAD"):
            return 405, b"there is only GET\n", {"Allow": "GET, HEAD"}
        if health:
            return await self._health(path)
        try:
            return 200, await self._page(), {}
        except Exception as error:
            _log.warning("no metrics: %s: %s", type(error).__name__, error)
            return 503, b"the store cannot be read; the log says why\n", {}

    async def _health(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        """Strangers learn yes or no; the log says what is wrong."""
        if path == "/healthz":
            return 200, b"ok\n", {}
        troubles = await self._troubles()
        if troubles:
            _log.warning("not ready: %s", ", ".join(troubles))
        return (503, b"unavailable\n", {}) if troubles else (200, b"ready\n", {})


def _address(writer: asyncio.StreamWriter) -> str | None:
    peer = writer.get_extra_info("peername")
    return peer[0] if peer else None
