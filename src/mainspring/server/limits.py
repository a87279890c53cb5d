"""How much of this process clients may hold: connections, streams, waits, and the time for each part of a request.

Every connection is an open file. Half of the files that the process may open stay free for the engine: connections to
the database, pipes to child processes, outgoing requests. Clients can therefore never keep the engine from its work.
"""

from __future__ import annotations

import sys

import msgspec

MOST_CONNECTIONS = 10_000
MOST_STREAMS = 500
MOST_STREAMS_OF_ONE = 100


class Limits(msgspec.Struct, frozen=True):
    """Times are in seconds. Streams and waits of one principal, or of one address where nobody logs in, are limited to
    a part of those in all, so that others always find room."""

    connections: int
    streams: int
    streams_of_one: int
    waits: int
    """Requests that wait for the end of an execution (`?wait=`)."""
    waits_of_one: int
    strangers_bytes: int = 32 * 1024 * 1024
    """Of large bodies that arrive without credentials, all together."""
    head: float = 10.0
    """From the first byte of a request, or from the opening of a connection, to the end of the request's head."""
    body: float = 30.0
    """From the end of the head to the end of the body."""
    reading: float = 30.0
    """How long a client may leave an answer unread."""


def limits_for(files: int) -> Limits:
    """The limits of a process that may open so many files.

    >>> small = limits_for(1024)
    >>> small.connections, small.streams, small.streams_of_one, small.waits, small.waits_of_one
    (512, 128, 64, 128, 64)
    >>> large = limits_for(1_000_000)
    >>> large.connections, large.streams, large.streams_of_one, large.waits, large.waits_of_one
    (10000, 500, 100, 2500, 1250)
    """
    connections = max(8, min(MOST_CONNECTIONS, files // 2))
    streams, waits = min(MOST_STREAMS, connections // 4), connections // 4
    return Limits(
        connections=connections,
        streams=streams,
        streams_of_one=min(MOST_STREAMS_OF_ONE, streams // 2),
        waits=waits,
        waits_of_one=waits // 2,
    )


def process_limits() -> Limits:
    """The limits of this process. Windows limits sockets by memory only."""
    if sys.platform == "win32":
        return limits_for(2 * MOST_CONNECTIONS)
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limits_for(2 * MOST_CONNECTIONS if files == resource.RLIM_INFINITY else files)
