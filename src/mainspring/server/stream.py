"""Live streams of executions: server-sent events.

One watch per execution and process follows it (`Queries.follow`), however many clients there are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette

from ..core.queries.queries import Queries
from ..core.render.entities import execution_json, execution_live_json, log_json
from ..core.views.execution import Execution
from ..core.views.records import log_entries, log_entry
from ..model.errors import MainspringError
from ..model.execution import ExecutionRow
from ..model.store.messages import LogLine
from .room import Room

FULL = b": too many streams are open\n\n"
"""All that a stream says if others took its room between the request and its first event."""
SILENCE = 5.0
"""Seconds without an event after which a comment is sent, so that no proxy closes the stream."""
ADMITTED_FOR = 3.0
"""Seconds after which the credentials of a client are checked again."""
MOST_BEHIND = 1_000
"""Events that a slow client may lag behind before it is disconnected."""


class StreamEvent(msgspec.Struct, frozen=True):
    name: str
    data: Any
    id: int | None = None

    def text(self) -> bytes:
        number = f"id: {self.id}\n" if self.id is not None else ""
        return f"event: {self.name}\n{number}data: {msgspec.json.encode(self.data).decode()}\n\n".encode()


class Admission:
    """Whether a client may still follow. It is asked with every event and checks the credentials now and then."""

    def __init__(self, admits: Callable[[], Awaitable[bool]]) -> None:
        self._admits, self._asked = admits, time.monotonic()

    async def holds(self) -> bool:
        now = time.monotonic()
        if now - self._asked < ADMITTED_FOR:
            return True
        self._asked = now
        return await self._admits()


class Watch:
    """Follows one execution and sends what happens to all its listeners."""

    def __init__(self, queries: Queries, id: str) -> None:
        self._queries, self.id = queries, id
        self._listeners: set[asyncio.Queue[StreamEvent | None]] = set()
        self._lines = 0
        self._task: asyncio.Task[None] | None = None

    def join(self) -> asyncio.Queue[StreamEvent | None]:
        queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue(MOST_BEHIND)
        self._listeners.add(queue)
        if self._task is None or self._task.done():  # it has ended for earlier listeners, who may be slow to leave
            self._task = asyncio.create_task(self._run(), name=f"watch-{self.id}")
        return queue

    def leave(self, queue: asyncio.Queue[StreamEvent | None]) -> bool:
        """Whether it was the last listener."""
        self._listeners.discard(queue)
        if not self._listeners and self._task is not None:
            self._task.cancel()
        return not self._listeners

    async def _run(self) -> None:
        try:
            async with aclosing(self._queries.follow(self.id, self._lines)) as items:
                async for item in items:
                    if not self._listeners:  # a driver may swallow the cancellation
                        return
                    self._show(item)
        except MainspringError:
            pass  # the execution is gone: the stream ends, and clients may ask again
        finally:
            self._send(None)

    def _show(self, item: tuple[int, LogLine] | ExecutionRow) -> None:
        if isinstance(item, tuple):
            self._lines = item[0]
            self._send(StreamEvent("log", log_json(self._lines, log_entry(*item)), self._lines))
            return
        execution = Execution(item)
        self._send(StreamEvent("execution", execution_live_json(execution)))
        if execution.state.final:
            self._send(StreamEvent("end", execution_json(execution)))

    def _send(self, event: StreamEvent | None) -> None:
        for queue in list(self._listeners):
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                self._listeners.discard(queue)
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)


class Streams(Room):
    """All streams of one application, those of the dashboard included."""

    def __init__(self, most: int, most_of_one: int) -> None:
        super().__init__("streams", most, most_of_one)
        self._watches: dict[str, Watch] = {}
        self._closed = False
        self._waiting: set[asyncio.Event] = set()

    def reopen(self) -> None:
        """The roles of this process start, perhaps again."""
        self._closed = False

    def close(self) -> None:
        """This process stops: streams and waits end."""
        self._closed = True
        for event in self._waiting:
            event.set()

    async def until_closed(self) -> None:
        """Each waiter has an event of its own: a shared one would belong to the event loop that first waited for it,
        and another loop may serve the application later."""
        if self._closed:
            return
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)

    async def follow(
        self, queries: Queries, execution: Execution, after: int, admission: Admission, who: str
    ) -> AsyncIterator[bytes]:
        """The present execution, its log lines after this number, then every change until it ends, or until the client
        loses its access. `who` holds the stream."""
        if not self.has_room(who):
            yield FULL
            return
        with self.holding(who):
            watch = self._watches.setdefault(execution.id, Watch(queries, execution.id))
            queue = watch.join()
            try:
                # Read again: changes between the first read and `join` would be missed.
                shown = StreamEvent("execution", execution_live_json(await _read_again(queries, execution)))
                yield shown.text()
                seen = after
                for number, line in log_entries(await queries.logs(execution.id, after)):
                    seen = number
                    yield StreamEvent("log", log_json(number, line), number).text()
                async for event in self._events(queue):
                    if not await admission.holds():
                        yield b": the credentials are not valid any more\n\n"
                        return
                    if event is None:
                        yield b": silence\n\n"
                    elif event != shown and (event.id is None or event.id > seen):
                        shown = event if event.name == "execution" else shown
                        yield event.text()
            finally:
                if watch.leave(queue):
                    self._watches.pop(execution.id, None)

    async def ticks(self, event: asyncio.Event, silence: float) -> AsyncIterator[bool]:
        """True whenever the event was set, False after so many seconds without it, until this process stops."""
        closed = asyncio.create_task(self.until_closed())
        waiting: asyncio.Task[Any] | None = None
        try:
            while not self._closed:
                waiting = asyncio.create_task(event.wait())
                await asyncio.wait({waiting, closed}, timeout=silence, return_when=asyncio.FIRST_COMPLETED)
                is_set = waiting.done()
                waiting.cancel()
                event.clear()
                if not self._closed:
                    yield is_set
        finally:
            closed.cancel()
            if waiting is not None:
                waiting.cancel()

    async def _events(self, queue: asyncio.Queue[StreamEvent | None]) -> AsyncIterator[StreamEvent | None]:
        """Events until the execution ends or this process stops; None after a while without one."""
        closed = asyncio.create_task(self.until_closed())
        getting: asyncio.Task[StreamEvent | None] | None = None
        try:
            while not self._closed:
                getting = asyncio.create_task(queue.get())
                await asyncio.wait({getting, closed}, timeout=SILENCE, return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    getting.cancel()
                    yield None
                    continue
                event = getting.result()
                if event is None:
                    return
                yield event
        finally:
            closed.cancel()
            if getting is not None:
                getting.cancel()


async def _read_again(queries: Queries, execution: Execution) -> Execution:
    try:
        return Execution(await queries.get(execution.id))
    except MainspringError:
        return execution  # the watch finds the same, and ends the stream


@asynccontextmanager
async def closing(app: Starlette) -> AsyncIterator[None]:
    """A wait inside it ends with `TimeoutError` when this process stops."""
    streams: Streams = app.state.streams
    waiting = asyncio.current_task()
    stopped = False

    async def watch() -> None:
        nonlocal stopped
        await streams.until_closed()
        stopped = True
        if waiting is not None:
            waiting.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not stopped or waiting is None or waiting.uncancel() > 0:
            raise
        raise TimeoutError from None
    finally:
        watching.cancel()
