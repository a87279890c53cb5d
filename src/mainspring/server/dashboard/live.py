"""Keeping open pages up to date.

An open page holds one stream, `/dashboard/live`. While any page is open, one tail per process listens to the store's
wake-ups and makes one query a second, in turns for the newest executions and for the newest audit records: commands
that touch no execution, such as a pause or an edit, leave one. When something has changed, every stream gets an event,
and its page asks for itself again. Browsers that show the same page to the same role share what was rendered.

Open pages never cost more than a small part of a core: the more tabs are open, and the longer their pages take to
render, the longer each waits between two requests, and the longer a rendered page is shared.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...core.queries.queries import Queries
from ...model.errors import MainspringError
from ..access import Role, guard_of, needs
from ..access.browsers import cookie_of, form_token_of
from ..stream import FULL, Admission, Streams
from .assets import TOKEN_PLACE

TAIL_EVERY = 1.0
NEWEST = 100
NEWEST_AUDITS = 20
PACE, LONGEST_PACE = 2.0, 60.0
"""Seconds between two requests of an open page: at least, and at most."""
PACE_PER_TAB = 0.15
"""Seconds more for each open tab: requests for pages that are shared take 1 to 2 % of a core."""
SHARE = 0.02
"""The part of a core that rendering pages for open tabs may take."""
SILENCE = 15.0
"""Seconds without a change after which a comment is sent, so that no proxy closes the stream."""
KEPT_FOR = 10.0
"""Seconds for which a rendered page is shared if nothing has changed."""
MOST_KEPT = 200
AT_ONCE = 2
"""Pages that are rendered for open tabs at the same time."""
USUAL_COST, GROWTH = 0.05, 1.25
"""What a page is taken to cost at most when it is rendered first, and by how much that may grow each time: the time
that is measured includes what other requests took meanwhile."""
LIVE_HEADER = "x-mainspring-live"
STALE_HEADER = "X-Mainspring-Stale"
"""On a page that was rendered before the last change: its tab asks again after its pace."""
ZONE = "mainspring_zone"
"""The cookie with the viewer's time zone, as the script of an earlier page found it."""

_RELATIVE = re.compile(rb'(?<=data-time="relative">)[^<]*')
"""Texts such as "3 min ago", which the script of a page keeps true by itself."""


class Tab:
    """One open stream and the page that it keeps up to date. `event` is set when there is a change to send."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.event = asyncio.Event()
        self.version = 0
        self.due = 0.0


class Tail:
    """Notices that something has changed. It reads while a tab is open, once a second however many there are and
    however often they come and go. `pace` says how long a tab rests between two changes."""

    def __init__(self, pace: Callable[[], float]) -> None:
        self.version = 0
        self.reads = 0
        self.tabs: set[Tab] = set()
        self._pace = pace
        self._seen: dict[bool, bytes] = {}
        self._read_at = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def reading(self) -> bool:
        return self._task is not None and not self._task.done()

    def join(self, queries: Queries, page: str = "") -> Tab:
        tab = Tab(page)
        self.tabs.add(tab)
        tab.version, tab.due = self.version, time.monotonic() + self._pace()
        if self._task is None or not self.reading or self._task.get_loop() is not asyncio.get_running_loop():
            self._task = asyncio.create_task(self._run(queries), name="dashboard-tail")
        return tab

    def leave(self, tab: Tab) -> None:
        """After the last one the tail ends by itself within a second. It is not cancelled: a driver that is cancelled
        while it reads drops its connection."""
        self.tabs.discard(tab)

    async def _run(self, queries: Queries) -> None:
        woken = asyncio.Event()
        unsubscribe = queries.listen(woken.set)
        try:
            while await self._still_wanted():
                changed = woken.is_set()
                woken.clear()
                self._read_at = time.monotonic()
                self.reads += 1
                turn = self.reads % 2 == 0
                with suppress(MainspringError, OSError):  # a store that is away: pages say so when they ask again
                    seen = await (_audits(queries) if turn else _executions(queries))
                    changed = changed or seen != self._seen.get(turn)
                    self._seen[turn] = seen
                self.version += changed
                self._send()
        finally:
            unsubscribe()

    async def _still_wanted(self) -> bool:
        await asyncio.sleep(max(0.0, self._read_at + TAIL_EVERY - time.monotonic()))
        return bool(self.tabs)

    def _send(self) -> None:
        """Tabs that were opened together do not ask together for long."""
        now, pace = time.monotonic(), self._pace()
        for tab in self.tabs:
            if tab.version != self.version and now >= tab.due:
                tab.version, tab.due = self.version, now + pace * random.uniform(0.8, 1.2)
                tab.event.set()


def page_of(request: Request) -> str:
    """The address of a page, with its filters."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


async def _executions(queries: Queries) -> bytes:
    rows = await queries.executions(limit=NEWEST, system=True)
    return _digest(f"{row.id}{row.state}{row.token}{row.progress_json}" for row in rows)


async def _audits(queries: Queries) -> bytes:
    """Several of them: where clocks differ, the last record need not have the greatest id."""
    return _digest(record.id for record in await queries.audits(limit=NEWEST_AUDITS))


def _digest(texts: Iterable[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(text.encode())
    return digest.digest()


class Kept:
    """A page as it was last rendered for one role and time zone. `cost` is the processor time that took."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.lock = asyncio.Lock()
        self.body = b""
        self.etag = ""
        self.version = 0
        self.at = 0.0
        self.cost = 0.0


Handler = Callable[[Request], Awaitable[Response]]


class LivePages:
    """The pages of one application that were rendered lately for open browsers."""

    def __init__(self) -> None:
        self.tail = Tail(lambda: self.pace)
        self.rendered = 0
        self._kept: OrderedDict[tuple[str, ...], Kept] = OrderedDict()
        self._rendering = asyncio.Semaphore(AT_ONCE)

    @property
    def pace(self) -> float:
        """Seconds between two requests of a tab."""
        return min(LONGEST_PACE, max(PACE, len(self.tail.tabs) * PACE_PER_TAB, self.shared_for))

    @property
    def shared_for(self) -> float:
        """Seconds for which a rendered page is shared although something has changed. If all pages that are open are
        rendered once in this time, that takes SHARE of a core."""
        pages = Counter(tab.page for tab in self.tail.tabs)
        return min(LONGEST_PACE, sum(kept.cost for kept in self._kept.values() if kept.page in pages) / SHARE)

    async def answer(self, request: Request, handler: Handler) -> Response:
        """The page. One that an open browser asks for again may be shared, and is sent only if it has changed."""
        token = form_token_of(request)
        if request.method != "GET" or LIVE_HEADER not in request.headers or token is None:
            return await handler(request)
        principal = await needs(Role.VIEWER, cookies=True)(request)
        kept = self._page(page_of(request), str(request.base_url), principal.role, cookie_of(request, ZONE))
        async with kept.lock:
            if not self._is_fresh(kept):
                async with self._rendering:
                    response = await self._render(kept, request, handler)
                if response is not None:
                    return response
        headers = {"ETag": kept.etag, "Vary": "Cookie"}
        if kept.version != self.tail.version:
            headers[STALE_HEADER] = "1"
        if request.headers.get("if-none-match") == kept.etag:
            return Response(status_code=304, headers=headers)
        body = kept.body.replace(TOKEN_PLACE.encode(), token.encode())
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)

    def _page(self, page: str, *who: str) -> Kept:
        kept = self._kept.setdefault((page, *who), Kept(page))
        self._kept.move_to_end((page, *who))
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return kept

    def _is_fresh(self, kept: Kept) -> bool:
        shared_for = self.shared_for if kept.version != self.tail.version else max(KEPT_FOR, self.shared_for)
        return bool(kept.body) and time.monotonic() - kept.at < shared_for

    async def _render(self, kept: Kept, request: Request, handler: Handler) -> Response | None:
        """Keep the page; an answer that is no page is returned instead."""
        version, began = self.tail.version, time.thread_time()
        self.rendered += 1
        response = await handler(request)
        if response.status_code != 200 or not response.body:
            return response
        kept.cost = min(time.thread_time() - began, max(USUAL_COST, kept.cost * GROWTH))
        kept.body, kept.version, kept.at = bytes(response.body), version, time.monotonic()
        kept.etag = f'"{hashlib.blake2b(_RELATIVE.sub(b"", kept.body), digest_size=12).hexdigest()}"'
        return None

    async def stream(
        self, request: Request, queries: Queries, streams: Streams, who: str, page: str = ""
    ) -> AsyncIterator[bytes]:
        """`changed` events with the pace, until the client leaves, loses its access, or this process stops. `who` holds
        the stream."""
        admission = Admission(lambda: guard_of(request).still_admits(request, Role.VIEWER, cookies=True))
        if not streams.has_room(who):
            yield FULL
            return
        with streams.holding(who):
            tab = self.tail.join(queries, page)
            try:
                yield self._event("hello")
                async for changed in streams.ticks(tab.event, SILENCE):
                    if not await admission.holds():
                        yield b"event: bye\ndata: {}\n\n"
                        return
                    yield self._event("changed") if changed else b": silence\n\n"
            finally:
                self.tail.leave(tab)

    def _event(self, name: str) -> bytes:
        data = msgspec.json.encode({"pace": round(self.pace, 1)}).decode()
        return f"event: {name}\ndata: {data}\n\n".encode()
