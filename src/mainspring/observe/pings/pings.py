"""Dead man's switches: an observer that requests the URLs which jobs name, see `core.rules.pings`.

It never holds up a job: events put a URL into a queue, and one thread with an event loop of its own sends the requests,
at most two to one host at a time, and fifty to the hosts of one domain. Hosts that hang hold no thread, so they keep no
other host waiting. A ping that does not fit, fails or takes too long is logged and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from ...core.ports import HttpAnswer
from ...core.rules.pings import address_of, names_addresses
from ...model.events import AttemptEnded, Rescued, Started
from ...model.execution import ExecutionRow
from ...model.values.web_address import destination_of, domain_of, host_of

_log = logging.getLogger("mainspring.pings")

CAPACITY = 1_000
AT_ONCE = 200
AT_ONCE_PER_HOST = 2
AT_ONCE_PER_DOMAIN = 50
TIMEOUT = 5.0
IDLE = 5.0
"""Seconds without work after which the thread ends; the next ping starts another."""
QUIET = 60.0
"""Seconds for which further failures of a job are not logged."""
_HEARD = frozenset({Started, AttemptEnded, Rescued})


class Getter(Protocol):
    """Sends the requests; `OutgoingHttp` does."""

    async def get(self, url: str, deadline: float) -> HttpAnswer: ...


class _Ping(NamedTuple):
    job: str
    url: str
    destination: str
    domain: str


class Pings:
    def __init__(self, http: Getter) -> None:
        self.http = http
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[_Ping]] = {}
        """By destination: a host and a port. The one whose turn is next comes first."""
        self._count = 0
        """Pings that are waiting or in progress."""
        self._busy: Counter[str] = Counter()
        """Pings in progress by destination."""
        self._busy_domains: Counter[str] = Counter()
        """The same by domain."""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the thread, once it runs."""
        self._news = asyncio.Event()
        """Set in the event loop when a ping was added or has ended."""
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
        destination = destination_of(url)
        ping = _Ping(event.execution.job, url, destination, domain_of(destination.rpartition(":")[0]))
        with self._changed:
            dropped = self._make_room(ping)
            if dropped is not ping:
                self._waiting.setdefault(ping.destination, deque()).append(ping)
                self._count += 1
                self._wake()
        if dropped is not None:
            self._complain(dropped.job, "too many pings are waiting already")

    def _make_room(self, ping: _Ping) -> _Ping | None:
        """The ping that does not fit. When the queue is full, the domain with the most waiting pings gives one up: it
        cannot fill the queue for the others."""
        if self._count < CAPACITY:
            return None
        waiting: Counter[str] = Counter()
        for each in self._waiting.values():
            waiting[each[0].domain] += len(each)
        domain, most = max(waiting.items(), key=itemgetter(1), default=("", 0))
        if most <= waiting[ping.domain] + 1:
            return ping
        longest = max((each for each in self._waiting.values() if each[0].domain == domain), key=len)
        dropped = longest.pop()
        if not longest:
            del self._waiting[dropped.destination]
        self._count -= 1
        return dropped

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._start_thread()
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._news.set)

    def _start_thread(self) -> None:
        """The thread before may have died: for want of files, or because this process was forked."""
        self._loop = None
        self._count -= self._busy.total()
        self._busy.clear()
        self._busy_domains.clear()
        thread = threading.Thread(target=self._run, name="mainspring-pings", daemon=True)
        thread.start()
        self._thread = thread

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

    # --- in the thread ------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._send_all())
        except OSError as error:
            _log.warning("pings cannot be sent for now: %s", error)

    async def _send_all(self) -> None:
        """Send until nothing has come for a while."""
        tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            with self._changed:
                taken = list(self._take())
            for ping in taken:
                task = asyncio.create_task(self._send(ping))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            try:
                async with asyncio.timeout(None if self._busy else IDLE):
                    await self._news.wait()
            except TimeoutError:
                with self._changed:
                    if not self._waiting:
                        self._thread = self._loop = None
                        return

    def _take(self) -> Iterator[_Ping]:
        """What may be sent now. A host that does not answer holds up no other: it never has more than its own share."""
        for host in [host for host in self._waiting if self._busy[host] < AT_ONCE_PER_HOST]:
            domain, left = self._waiting[host][0].domain, AT_ONCE - self._busy.total()
            if left <= 0:
                return
            room = min(AT_ONCE_PER_HOST - self._busy[host], AT_ONCE_PER_DOMAIN - self._busy_domains[domain], left)
            if room <= 0:
                continue
            waiting = self._waiting.pop(host)
            for _ in range(min(room, len(waiting))):
                self._busy[host] += 1
                self._busy_domains[domain] += 1
                yield waiting.popleft()
            if waiting:
                self._waiting[host] = waiting  # at the end: hosts take turns

    async def _send(self, ping: _Ping) -> None:
        """The URL itself is a secret: only its host is logged."""
        try:
            status = (await self.http.get(ping.url, TIMEOUT)).status
            problem = None if 200 <= status < 300 else f"answered {status}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        with self._changed:
            self._busy -= Counter({ping.destination: 1})  # which drops a destination at 0
            self._busy_domains -= Counter({ping.domain: 1})
            self._count -= 1
            self._changed.notify_all()
        self._news.set()
        if problem is not None:
            self._complain(ping.job, f"{host_of(ping.url)}: {problem}")

    def _complain(self, job: str, problem: str) -> None:
        now = time.monotonic()
        if now < self._quiet_until.get(job, 0.0):
            return
        self._quiet_until[job] = now + QUIET
        _log.warning("ping of job %s failed: %s", job, problem)
