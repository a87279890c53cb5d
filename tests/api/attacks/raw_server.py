"""A server inside the test with limits of the test's choice, and connections to it that send what they like."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from mainspring import Mainspring
from mainspring.server.limits import limits_for
from mainspring.server.serving import HttpServer
from tests.support import DEADLINE

SMALL = 4096


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def ask(self, path: str) -> None:
        """A whole request."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    async def send(self, *lines: str, body: str = "", host: str = "localhost") -> None:
        """The lines of a head; without a body it ends after the last one, as if more were to come."""
        head = "\r\n".join((lines[0], f"Host: {host}", *lines[1:])) + "\r\n"
        self.writer.write((head + (f"\r\n{body}" if body else "")).encode())
        with suppress(OSError):
            await self.writer.drain()

    async def status(self) -> int:
        """The status of the next answer, which is read; 0 if the server closed the connection instead."""
        async with asyncio.timeout(DEADLINE):
            with suppress(OSError, asyncio.IncompleteReadError):
                head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                await self._reader.readexactly(int(length[1]) if length else 0)
                return int(head.split()[1])
        return 0

    async def closed(self) -> bytes:
        """What the server sends until it closes the connection."""
        found = b""
        async with asyncio.timeout(DEADLINE):
            with suppress(OSError):
                while part := await self._reader.read(65_536):
                    found += part
        return found


class RawServer:
    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self._made: list[asyncio.StreamWriter] = []

    async def call(self, *, small: bool = False) -> Caller:
        """A new connection; a `small` one takes only a few kilobytes before it is read."""
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if small:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.server.port))
        reader, writer = await asyncio.open_connection(sock=client, limit=SMALL)
        self._made.append(writer)
        return Caller(reader, writer)

    def hang_up(self) -> None:
        for writer in self._made:
            writer.transport.abort()


@asynccontextmanager
async def serving(app: Mainspring, **limits: Any) -> AsyncIterator[RawServer]:
    """`limits` replace those of a process that may open 1,024 files."""
    api = app.asgi()
    api.state.limits = msgspec.structs.replace(limits_for(1024), **limits)
    server = HttpServer(api, app.settings.with_changes({"port": 0}))
    server.bind()
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
    await server.start()
    raw = RawServer(server)
    try:
        yield raw
    finally:
        raw.hang_up()
        await server.stop()
