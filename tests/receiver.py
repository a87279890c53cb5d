"""A receiver of webhooks for tests: an HTTP server on this machine that behaves as a test tells it, by path."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple


class Message(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def type(self) -> str:
        return self.event["type"]


Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answers(status: int, headers: str = "", body: bytes = b"") -> Behaviour:
    async def answer(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} Because\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{headers}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return answer


async def hangs(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def drips(writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nx-padding: " + b"x" * 10_000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.2)


async def closes(writer: asyncio.StreamWriter) -> None:
    writer.close()


class Receiver:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.behaviours: dict[str, Behaviour] = {}
        self.port = 0

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def at(self, path: str) -> list[Message]:
        return [message for message in self.messages if message.path == path]

    def types(self, path: str = "/") -> list[str]:
        return sorted(message.type for message in self.at(path))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            path = first.split(" ")[1]
            self.messages.append(Message(path, headers, body))
            await self.behaviours.get(path, answers(204))(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(receiver._serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
