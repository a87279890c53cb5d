"""The open connections of the HTTP server: how many there may be, and which are closed to make room.

A connection is either busy, with a complete request that is being answered, or it waits for its client: for the head of
a request, for its body, or for the client to read an answer. Each wait has a deadline. When all places are taken, the
connection that has waited longest is closed for the next one, so that clients who leave requests unfinished cannot shut
out others. While every connection is busy, new ones stay in the queue of the operating system.

A client who does not wait for the answer before it sends the next request would keep its place for as long as it likes:
its connection is closed after the answer.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import socket
import time
from collections import OrderedDict
from enum import Enum

import h11
import uvicorn
from uvicorn.protocols.http.flow_control import CLOSE_HEADER, FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from .limits import Limits

logger = logging.getLogger("mainspring.server")

PART = 8 * 1024
"""Bytes that are parsed at once. It takes 200 ms to parse 256 KiB of chunks that hold one byte each."""
AT_A_TIME = 32
"""Connections that are accepted before other tasks get their turn."""
RETRY_AFTER = 0.2
"""Seconds until the next attempt when the operating system refuses a connection, for want of files or memory."""
GRACE = 5.0
"""Seconds after the deadline of a body in which the application answers that the body came too late."""
CLOSING = 5.0
"""Seconds in which a client must take the rest of an answer after which its connection is closed."""


class Phase(Enum):
    BUSY = "busy"
    IDLE = "idle"
    """Between two requests: uvicorn closes it after `timeout_keep_alive`."""
    HEAD = "head"
    BODY = "body"
    READING = "reading"
    CLOSING = "closing"


class Flow(FlowControl):
    """Reads no more from a client while uvicorn does not want to, or while it is held."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._wanted = True
        self._held = False

    def pause_reading(self) -> None:
        self._wanted = False
        self._apply()

    def resume_reading(self) -> None:
        self._wanted = True
        self._apply()

    def hold(self, held: bool) -> None:
        self._held = held
        self._apply()

    def _apply(self) -> None:
        if self._wanted and not self._held:
            super().resume_reading()
        else:
            super().pause_reading()


class Connection(H11Protocol):
    """One connection, which tells `Connections` what it waits for."""

    flow: Flow

    def __init__(self, config: uvicorn.Config, state: ServerState, connections: Connections) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._all = connections
        self._unparsed = bytearray()
        self.phase = Phase.HEAD
        self.since = time.monotonic()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._all.changed(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._all.remove(self)

    def data_received(self, data: bytes) -> None:
        """Much is parsed in parts, so that other connections get their turn in between."""
        if self._unparsed:
            self._unparsed += data
            self.transport.pause_reading()  # at the end of a body uvicorn resumes reading past its flow control
        elif len(data) <= PART:
            self._parse(data)
        else:
            self._unparsed += data
            self.flow.hold(True)
            self._parse_on()

    def _parse_on(self) -> None:
        if not self.transport.is_closing():
            part = bytes(self._unparsed[:PART])
            del self._unparsed[:PART]
            self._parse(part)
        if self.transport.is_closing():
            self._unparsed.clear()
        elif self._unparsed:
            self.loop.call_soon(self._parse_on)
        else:
            self.flow.hold(False)

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        self.look()

    def eof_received(self) -> None:
        super().eof_received()
        self.loop.call_soon(self.look)  # asyncio closes the connection after this

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.look()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.look()

    @property
    def answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def drop(self) -> None:
        """Close it without waiting for the client."""
        self.transport.abort()

    def look(self) -> None:
        """Find out what it waits for now."""
        if self._has_more_requests() and CLOSE_HEADER not in self.scope["headers"]:
            self.scope["headers"] = [*self.scope["headers"], CLOSE_HEADER]  # uvicorn answers it in kind
        phase = self._phase_now()
        if phase is not self.phase:
            self.phase, self.since = phase, time.monotonic()
            self._all.changed(self)

    def _has_more_requests(self) -> bool:
        """Whether the client sent the next request before it had any of the answer to this one."""
        begun = self.cycle is not None and not self.cycle.response_started
        return begun and self.conn.their_state is h11.DONE and bool(self.conn.trailing_data[0])

    def _phase_now(self) -> Phase:
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.flow.write_paused:
            return Phase.READING
        if self.conn.their_state is h11.SEND_BODY:  # also when the answer did not wait for the body
            return Phase.BODY
        if self.cycle is None:
            return Phase.HEAD
        if not self.answered:
            return Phase.BUSY
        return Phase.HEAD if self.conn.trailing_data[0] else Phase.IDLE


class Connections:
    def __init__(self, limits: Limits) -> None:
        self._most = limits.connections
        self._patience = {
            Phase.HEAD: limits.head,
            Phase.BODY: limits.body,
            Phase.READING: limits.reading,
            Phase.CLOSING: CLOSING,
        }
        self._open: set[Connection] = set()
        self._waiting: OrderedDict[Connection, None] = OrderedDict()
        """Those that wait for their client, longest first."""
        self._freed = asyncio.Event()
        self._connecting: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    # --- what connections tell ----------------------------------------------------------------------------
    def changed(self, connection: Connection) -> None:
        """It waits for something else, or for nothing."""
        self._waiting.pop(connection, None)
        if connection.phase is not Phase.BUSY and connection in self._open:
            self._waiting[connection] = None
            self._freed.set()

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        self._freed.set()

    # --- deadlines and room -------------------------------------------------------------------------------
    def drop_late(self) -> None:
        """Close the connections whose clients took too long."""
        now = time.monotonic()
        for connection in [each for each in self._open if each.transport is not None]:
            connection.look()
            if now - connection.since > self._patience_with(connection):
                self._drop(connection)

    def _patience_with(self, connection: Connection) -> float:
        if connection.phase is Phase.BODY and not connection.answered:
            return self._patience[Phase.BODY] + GRACE
        return self._patience.get(connection.phase, math.inf)

    async def _room(self) -> None:
        """Return when there is a place for one more connection."""
        while len(self._open) >= self._most:
            self._freed.clear()
            self._drop_longest()
            await self._freed.wait()

    def _drop_longest(self) -> None:
        """Close the connection that has waited longest for its client, if any waits."""
        if self._waiting:
            self._drop(next(iter(self._waiting)))

    def _drop(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        connection.drop()

    # --- accepting ----------------------------------------------------------------------------------------
    async def accept(self, listener: socket.socket, config: uvicorn.Config, state: ServerState) -> None:
        """Accept connections until cancelled; while there is no room for one, the next ones are not accepted."""
        for count in itertools.count(1):
            client = await self._next_client(listener)
            try:
                await self._room()
            except asyncio.CancelledError:
                client.close()
                raise
            self._add(Connection(config, state, self), client)
            if count % AT_A_TIME == 0:
                await asyncio.sleep(0)

    async def _next_client(self, listener: socket.socket) -> socket.socket:
        """When the operating system refuses a connection, one that waits is closed, and soon after comes a new try."""
        told = False
        while True:
            try:
                return await _accepted(listener)
            except ConnectionAbortedError:
                continue  # the client has left already
            except OSError as error:
                if not told:
                    logger.warning("cannot accept connections for now: %s", error.strerror or error)
                told = True
                self._drop_longest()
                await asyncio.sleep(RETRY_AFTER)

    def _add(self, connection: Connection, client: socket.socket) -> None:
        self._open.add(connection)
        connecting = asyncio.create_task(self._connect(connection, client))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: Connection, client: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, client)
        except OSError:  # the client has left already
            client.close()
            self.remove(connection)


async def _accepted(listener: socket.socket) -> socket.socket:
    """The next client. One that is there already is not waited for: each turn of the event loop may be long."""
    try:
        client = listener.accept()[0]
    except BlockingIOError:
        return (await asyncio.get_running_loop().sock_accept(listener))[0]
    client.setblocking(False)
    return client
