"""Dead man's switches: an observer that requests the URLs which jobs name, see `core.rules.pings`.

It never holds up a job: events put a URL into a short queue, and its own threads send the requests, at most two to one
host at a time. One that does not fit, fails or takes too long is logged and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from ...core.rules.pings import address_of, names_addresses
from ...model.events import AttemptEnded, Rescued, Started
from ...model.execution import ExecutionRow
from ...model.values.web_address import host_of
from ..outgoing.http import OutgoingHttp

_log = logging.getLogger("mainspring.pings")

CAPACITY = 1_000
THREADS = 8
THREADS_PER_HOST = 2
TIMEOUT = 5.0
IDLE = 5.0
"""Seconds without work after which a thread ends; the next ping starts another."""
QUIET = 60.0
"""Seconds for which further failures of a job are not logged."""
_HEARD = frozenset({Started, AttemptEnded, Rescued})


def ask(url: str, timeout: float, private: bool) -> int:
    """GET this URL and return the status; raises `OSError` if there is none within `timeout` seconds."""
    return asyncio.run(OutgoingHttp(private).get(url, timeout)).status


class Pings:
    """`private` allows addresses in private networks; `send` is replaced in tests."""

    def __init__(self, private: bool, send: Callable[[str, float, bool], int] = ask) -> None:
        self.private = private
        self._send = send
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[tuple[str, str]]] = {}
        """Jobs and addresses by host. The host whose turn is next comes first."""
        self._count = 0
        """Pings that are waiting or in progress."""
        self._busy: Counter[str] = Counter()
        self._threads = 0
        self._quiet_until: dict[str, float] = {}

    def hears(self, kind: type) -> bool:
        return kind in _HEARD

    def wants(self, kind: type, execution: ExecutionRow) -> bool:
        return names_addresses(execution)

    def wants_any(self, kind: type, executions: Sequence[ExecutionRow]) -> bool:
        policy = ""
        for execution in executions:
            if execution.policy != policy:  # most of a batch share theirs
                policy = execution.policy
                if names_addresses(execution):
                    return True
        return False

    def __call__(self, event: Any, /) -> None:
        if type(event) not in _HEARD or not names_addresses(event.execution):
            return
        url = address_of(event)
        if url is None:
            return
        with self._changed:
            fits = self._count < CAPACITY
            if fits:
                self._waiting.setdefault(host_of(url), deque()).append((event.execution.job, url))
                self._count += 1
                self._changed.notify_all()
                self._start_thread()
        if not fits:
            self._complain(event.execution.job, "too many pings are waiting already")

    def _start_thread(self) -> None:
        if self._threads < min(THREADS, self._count):
            self._threads += 1
            threading.Thread(target=self._work, name="mainspring-ping", daemon=True).start()

    @property
    def waiting(self) -> bool:
        """Whether pings are waiting or in progress."""
        return self._count > 0

    def flush(self, timeout: float) -> bool:
        """Wait until all pings were sent, at most `timeout` seconds; returns whether they were."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, timeout)

    def close(self, timeout: float) -> None:
        """Give the pings that wait this long; those that are not sent by then are dropped, and their number logged."""
        if self.flush(timeout):
            return
        with self._changed:
            dropped = self._count
            self._count -= sum(map(len, self._waiting.values()))
            self._waiting.clear()
        _log.warning("the application closes: %d pings were not sent within %g s and are dropped", dropped, timeout)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(self._next_host, IDLE):
                    self._threads -= 1
                    return
                host, job, url = self._take()
            try:
                self._ping(job, url)
            finally:
                with self._changed:
                    self._busy -= Counter({host: 1})  # which drops a host at 0
                    self._count -= 1
                    self._changed.notify_all()

    def _next_host(self) -> str | None:
        """A host that does not answer holds up no other: it never has more than its own share of the threads."""
        return next((host for host in self._waiting if self._busy[host] < THREADS_PER_HOST), None)

    def _take(self) -> tuple[str, str, str]:
        host = self._next_host() or ""
        waiting = self._waiting.pop(host)
        job, url = waiting.popleft()
        if waiting:
            self._waiting[host] = waiting  # at the end: hosts take turns
        self._busy[host] += 1
        return host, job, url

    def _ping(self, job: str, url: str) -> None:
        """The URL itself is a secret: only its host is logged."""
        try:
            status = self._send(url, TIMEOUT, self.private)
            problem = None if 200 <= status < 300 else f"answered {status}"
        except (OSError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            self._complain(job, f"{host_of(url)}: {problem}")

    def _complain(self, job: str, problem: str) -> None:
        now = time.monotonic()
        if now < self._quiet_until.get(job, 0.0):
            return
        self._quiet_until[job] = now + QUIET
        _log.warning("ping of job %s failed: %s", job, problem)
