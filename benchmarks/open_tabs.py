"""Browsers with an open page each, as far as the server notices: the stream, and the requests that
`server/dashboard/static/live.js` makes, at the pace that the server gives."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

LONGEST_REST = 15.0
OPENED_WITHIN = 2.0
PATIENCE = 60.0


class OpenTabs:
    """`asked` counts requests for pages, `failed` those that were not answered with 200 or 304; `longest_gap` is the
    longest time that a tab went without a look."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked = 0
        self.failed = 0
        self.longest_gap = 0.0

    async def run(self, paths: Sequence[str], over: asyncio.Event) -> None:
        step = OPENED_WITHIN / max(1, len(paths))
        tabs = [asyncio.create_task(Tab(self, path).run(number * step)) for number, path in enumerate(paths)]
        await over.wait()
        for tab in tabs:
            tab.cancel()
        for result in await asyncio.gather(*tabs, return_exceptions=True):
            self.failed += isinstance(result, Exception)


class Tab:
    def __init__(self, tabs: OpenTabs, path: str) -> None:
        self._tabs, self._path = tabs, path
        self._headers = f"Host: 127.0.0.1:{tabs.port}\r\nCookie: mainspring_form={secrets.token_hex(16)}\r\n"
        self._etag = ""
        self._pace = 2.0
        self._next = 0.0
        self._asked = 0.0
        self._heard = False
        self._planned = asyncio.Event()

    async def run(self, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._get("Accept: text/html\r\n")
        hearing = asyncio.create_task(self._hear())
        try:
            self._plan(LONGEST_REST)
            while True:
                await self._until_due()
                await self._get(f"X-Mainspring-Live: 1\r\nIf-None-Match: {self._etag}\r\n")
                self._plan(self._pace if self._heard else max(self._pace, LONGEST_REST))
        finally:
            hearing.cancel()

    def _plan(self, delay: float) -> None:
        self._next = time.monotonic() + delay
        self._planned.set()

    async def _until_due(self) -> None:
        while (left := self._next - time.monotonic()) > 0:
            self._planned.clear()
            try:
                await asyncio.wait_for(self._planned.wait(), left)
            except TimeoutError:
                return

    async def _get(self, headers: str) -> None:
        """Connections are idle for longer than the server keeps them, so each request has its own."""
        now = time.monotonic()
        if self._asked:
            self._tabs.longest_gap = max(self._tabs.longest_gap, now - self._asked)
        self._asked, self._heard = now, False
        self._tabs.asked += 1
        reader, writer = await asyncio.open_connection("127.0.0.1", self._tabs.port, limit=2**20)
        try:
            writer.write(f"GET {self._path} HTTP/1.1\r\n{self._headers}{headers}\r\n".encode())
            status, found = await _answer_head(reader)
            await reader.readexactly(int(found.get("content-length", 0)))
        finally:
            writer.close()
        self._tabs.failed += status not in (200, 304)
        self._etag = found.get("etag", self._etag)
        self._heard = self._heard or "x-mainspring-stale" in found

    async def _hear(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._tabs.port, limit=2**20)
        try:
            page = quote(self._path, safe="")
            writer.write(f"GET /dashboard/live?page={page} HTTP/1.1\r\n{self._headers}\r\n".encode())
            await _answer_head(reader)
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    self._pace, self._heard = json.loads(line[6:])["pace"], True
                    self._plan(max(0.0, self._asked + self._pace - time.monotonic()))
        finally:
            writer.close()


async def _answer_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    async with asyncio.timeout(PATIENCE):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines[1:] if line)
    return int(lines[0].split()[1]), {name.lower(): value for name, _, value in pairs}


@contextmanager
def open_tabs(port: int, paths: Sequence[str]) -> Iterator[OpenTabs]:
    """They are open, in a thread of their own, while the context lasts."""
    tabs, loop, over = OpenTabs(port), asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(tabs.run(paths, over),))
    thread.start()
    try:
        yield tabs
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
