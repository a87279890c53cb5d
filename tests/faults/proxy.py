"""A TCP proxy in front of a server that does what networks do: delay, cut, fall silent in one direction.

It has a thread of its own, so that a test may block. What it looks for in the bytes of a client (`LISTEN`, the name of
a function) is enough to tell connections and statements of ours apart.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

CHUNK = 1 << 16
QUESTIONS = tuple(number.to_bytes(4) for number in (80877103, 80877104))
"""Whether the server speaks TLS or GSS: asked before the real first message."""


@dataclass(eq=False)
class Line:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    said: bytearray = field(default_factory=bytearray)
    """Everything the client has sent, with the text of a prepared statement each time it is run."""
    statements: dict[bytes, bytes] = field(default_factory=dict)
    """The texts of prepared statements, by name."""
    rest: bytes = b""
    """The beginning of a message that has not come in full."""
    greeted: bool = False
    """The first messages, which have no type, are over."""
    deaf: bool = False
    """What the server sends no longer reaches the client; nobody is told."""
    mute: bool = False
    """What the client sends no longer reaches the server; nobody is told."""
    doomed: bool = False
    """The next words of the server are its last, and are lost: the client sees the connection break instead."""

    def blackhole(self) -> None:
        """Half-open: both ends believe in it, nothing gets through."""
        self.deaf = self.mute = True


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self.lines: list[Line] = []
        self.delay = 0.0
        """Seconds that everything takes longer, in each direction."""
        self.on_words: Callable[[Line, bytes], None] = lambda line, words: None
        """Told of everything a client says, before the server hears it; it may doom the line, or silence it."""
        self.on_lost: Callable[[Line], None] = lambda line: None
        """Told of every answer that was lost together with its connection."""
        self.silent = False
        """New connections are accepted, and nothing else."""

    @property
    def port(self) -> int:
        assert self._listener is not None
        return int(self._listener.sockets[0].getsockname()[1])

    def address(self, url: str) -> str:
        """The same database, through the proxy."""
        parts = urlsplit(url)
        host = f"{parts.username}@127.0.0.1:{self.port}"
        return urlunsplit((parts.scheme, host, parts.path, parts.query, ""))

    def that_said(self, words: bytes) -> list[Line]:
        """The connections, alive by what is known here, whose client has said this."""
        return [line for line in self.lines if words in line.said]

    def cut(self, line: Line) -> None:
        self._loop.call_soon_threadsafe(self._over, line)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accepted, "127.0.0.1", 0)

    async def _end(self) -> None:
        assert self._listener is not None
        self._listener.close()
        for line in list(self.lines):
            self._over(line)
        for task in self._pumps:
            task.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _accepted(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            server_reader, server = await asyncio.open_connection(self._host, self._port)
        except OSError:
            client.transport.abort()
            return
        line = Line(client, server)
        if self.silent:
            line.blackhole()
        self.lines.append(line)
        for pump in (self._from_client(line, client_reader), self._from_server(line, server_reader)):
            task = asyncio.create_task(pump)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _from_client(self, line: Line, reader: asyncio.StreamReader) -> None:
        while words := await _read(reader):
            heard = words + b" ".join(_run_by_name(line, words))
            line.said += heard
            self.on_words(line, heard)
            await asyncio.sleep(self.delay)
            if not line.mute:
                line.server.write(words)
        self._over(line)

    async def _from_server(self, line: Line, reader: asyncio.StreamReader) -> None:
        while words := await _read(reader):
            await asyncio.sleep(self.delay)
            if line.doomed:
                self.on_lost(line)
                break
            if not line.deaf:
                line.client.write(words)
        if not line.deaf:
            self._over(line)

    def _over(self, line: Line) -> None:
        for end in (line.client, line.server):
            end.transport.abort()
        if line in self.lines:
            self.lines.remove(line)


def _run_by_name(line: Line, words: bytes) -> list[bytes]:
    """The texts of the prepared statements that these words run. PostgreSQL's messages are a type, a length, a body."""
    line.rest += words
    texts = []
    while (message := _first_message(line)) is not None:
        kind, body = message
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            line.statements[name] = text
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            texts.append(line.statements.get(name, b""))
    return texts


def _first_message(line: Line) -> tuple[bytes, bytes] | None:
    """Taken from the rest; None while it is not there in full."""
    head = 1 if line.greeted else 0
    if len(line.rest) < head + 4:
        return None
    end = head + int.from_bytes(line.rest[head : head + 4])
    if len(line.rest) < end:
        return None
    message, line.rest = line.rest[:end], line.rest[end:]
    if not line.greeted:
        line.greeted = message[4:8] not in QUESTIONS
        return b"", b""
    return message[:1], message[5:]


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(CHUNK)
    except OSError:
        return b""


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """A proxy in front of the server of that address."""
    parts = urlsplit(url)
    proxy = Proxy(parts.hostname or "127.0.0.1", parts.port or 5432)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
