"""Serving the HTTP interface in the event loop of this process, beside its other roles."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from ..config.settings import Settings
from ..model.errors import ConfigurationError
from .access import UVICORN_OPTIONS, may_listen
from .connections import Connections
from .limits import Limits
from .stream import Streams

logger = logging.getLogger("mainspring.server")

BACKLOG = 2048
MOST_HEAD = 32 * 1024
"""Bytes of the head of a request: a credential of the greatest length, and cookies of other applications."""
PATIENCE = 5.0
"""Seconds that requests under way get to finish when this process stops; streams and waits end at once."""
POLL = 0.01
SWEEP_EVERY = 5
"""Ticks of uvicorn, a tenth of a second each, between two looks for connections that are past their deadline."""
KEEP_ALIVE = 20
"""Seconds for which an idle connection stays open: longer than clients keep theirs (5 s in httpx, 15 s in aiohttp).
Otherwise both may give it up at the same moment, and a request is lost."""


class _Server(uvicorn.Server):
    """Leaves signals to the process that runs the application, and accepts connections only while there is room."""

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self.open = Connections(limits)
        self._accepting: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = []  # uvicorn's own would accept connections until no file is left
        for listener in sockets or ():
            listener.setblocking(False)
            listener.listen(BACKLOG)
            accepting = self.open.accept(listener, self.config, self.server_state)
            self._accepting.append(asyncio.create_task(accepting, name="mainspring-http-accept"))
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_EVERY == 0:
            self.open.drop_late()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)


class HttpServer:
    def __init__(self, api: FastAPI, settings: Settings) -> None:
        may_listen(settings.host, settings.security)
        self._api, self._host, self._port = api, settings.host, settings.port
        self._socket: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None
        config = uvicorn.Config(
            api,
            http="h11",
            ws="none",  # the interface has no WebSockets, and they would not be counted
            lifespan="off",  # the application starts and stops this, not the other way round
            log_config=None,
            access_log=False,
            log_level="error",  # its warnings are about odd requests, with which strangers could fill the disk
            h11_max_incomplete_event_size=MOST_HEAD,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=max(1, int(min(PATIENCE, settings.stop_timeout / 2))),
            **UVICORN_OPTIONS,  # type: ignore[arg-type]
        )
        self._server = _Server(config, api.state.limits)

    @property
    def socket(self) -> socket.socket:
        assert self._socket is not None, "it has its port"
        return self._socket

    @property
    def port(self) -> int:
        """The port that the server listens on. With port 0 in the settings, the system chose it."""
        return int(self.socket.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.open)

    def bind(self) -> None:
        """Take the port, or raise an error that says why not. Requests are not answered before `start`."""
        self._socket = _bound(self._host, self._port)

    async def start(self) -> None:
        streams: Streams = self._api.state.streams
        streams.reopen()
        self._serving = asyncio.create_task(self._server.serve([self.socket]), name="mainspring-http")
        while not self._server.started and not self._serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(POLL)
        if self._serving.done():
            await self._serving
        logger.info("listening on http://%s:%d", self._host, self.port)

    async def stop(self) -> None:
        """Take no more requests, let those under way finish, and end streams and waits."""
        streams: Streams = self._api.state.streams
        streams.close()
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        if self._socket is not None:
            self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches off Nagle's delay only for sockets that say they are TCP; without it small answers take 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another port with --port"
        ) from None
    return listener
