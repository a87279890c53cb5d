"""Counters and timers of jobs for a StatsD daemon, over UDP.

    app.observe(StatsD("127.0.0.1:8125"))

A datagram is sent or dropped: nothing waits for it, and no error is raised.
"""

from __future__ import annotations

import logging
import re
import socket
from functools import lru_cache

from ...model.errors import InvalidValue
from ...model.events import AttemptEnded, Enqueued, Fenced, Missed, Rescued, RowEvent, Skipped, Started, Ticked
from ...model.execution import ExecutionRow, State

_log = logging.getLogger("mainspring.observe")
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.%]+)\]|(?P<name>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
_KINDS = frozenset({AttemptEnded, Enqueued, Fenced, Missed, Rescued, Skipped, Started, Ticked})


class StatsD:
    """An observer. Metrics are named `prefix.job.what`; with `tags` they are named `prefix.what` and carry the job as
    a tag, as DogStatsD and Telegraf read them.

    Counters: enqueued, started, completed, partial, failed, cancelled, retried, skipped, rescued, fenced, missed.
    Timers, in milliseconds: `duration` of an attempt, and `late`, how long after its time a tick was materialised.
    """

    takes_rows = True

    def __init__(self, address: str, *, prefix: str = "mainspring", tags: bool = False) -> None:
        self._prefix, self._tags = prefix, tags
        self._socket = _connected(address)
        self.dropped = 0

    def hears(self, kind: type) -> bool:
        return kind in _KINDS

    def __call__(self, event: RowEvent, /) -> None:
        if type(event) not in _KINDS:
            return
        try:
            if self._socket is not None:
                self._socket.send("\n".join(self.lines(event)).encode())
        except OSError:
            self.dropped += 1

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def lines(self, event: RowEvent) -> list[str]:
        """The metrics of this event, one on each line."""
        match event:
            case AttemptEnded():
                ending = self._ending(event)
                counted = [] if ending is None else [self._line(event.execution.job, ending, "1|c")]
                took = self._line(event.execution.job, "duration", f"{event.duration_ms:.3f}|ms")
                return [*counted, took] if event.tried else counted
            case Ticked():
                return [self._line(event.execution.job, "late", f"{event.late_ms:.3f}|ms")]
            case Missed(waiting=False):
                return [self._line(event.job, "missed", f"{event.count}|c")]
            case Rescued():
                ending = "retried" if event.state is State.PENDING else event.state.value
                return [self._line(event.execution.job, what, "1|c") for what in ("rescued", ending)]
            case Enqueued() | Fenced() | Skipped() | Started():
                return [self._line(event.execution.job, type(event).__name__.lower(), "1|c")]
            case _:
                return []

    def _ending(self, event: AttemptEnded[ExecutionRow]) -> str | None:
        if event.state is State.PENDING:
            return None if event.reason in ("snoozed", "handed_back", "payload_mismatch") else "retried"
        return event.state.value if event.state.final else None

    def _line(self, job: str, what: str, value: str) -> str:
        if self._tags:
            return f"{self._prefix}.{what}:{value}|#job:{_plain(job)}"
        return f"{self._prefix}.{_plain(job)}.{what}:{value}"


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Dots separate the levels of a name, and colons and bars belong to the protocol."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _connected(address: str) -> socket.socket | None:
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise InvalidValue("address", address, "host:port of a StatsD daemon, such as 127.0.0.1:8125")
    host, port = found["six"] or found["name"], int(found["port"])
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    except OSError:
        _log.warning("StatsD at %s cannot be resolved: nothing is sent there", address)
        return None
    sender = socket.socket(family, kind, protocol)
    sender.setblocking(False)
    sender.connect(target)
    return sender
