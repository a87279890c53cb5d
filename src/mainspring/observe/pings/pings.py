"""Dead man's switches: an observer that requests the URLs which jobs name, see `core.rules.pings`.

It never holds up a job: events put a URL into a short queue, and its own threads send the requests. One that does not
fit, fails or takes too long is logged and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ...core.rules.pings import address_of, names_addresses
from ...model.events import AttemptEnded, Rescued, Started
from ...model.execution import ExecutionRow
from ...model.values.web_address import host_of
from ..outgoing.http import OutgoingHttp

_log = logging.getLogger("mainspring.pings")

CAPACITY = 1_000
THREADS = 4
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
        self._waiting: queue.Queue[tuple[str, str]] = queue.Queue(CAPACITY)
        self._threads: list[threading.Thread] = []
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
        try:
            self._waiting.put_nowait((event.execution.job, url))
        except queue.Full:
            self._complain(event.execution.job, "too many pings are waiting already")
            return
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) < min(THREADS, self._waiting.qsize()):
            thread = threading.Thread(target=self._work, name="mainspring-ping", daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def waiting(self) -> bool:
        """Whether pings are waiting or in progress."""
        return self._waiting.unfinished_tasks > 0

    def flush(self, timeout: float) -> bool:
        """Wait until all pings were sent, at most `timeout` seconds; returns whether they were."""
        end = time.monotonic() + timeout
        with self._waiting.all_tasks_done:
            while self._waiting.unfinished_tasks:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._waiting.all_tasks_done.wait(left)
        return True

    def close(self, timeout: float) -> None:
        """Give the pings that wait this long; those that are not sent by then are dropped, and their number logged."""
        if self.flush(timeout):
            return
        dropped = self._waiting.unfinished_tasks
        with suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()
                self._waiting.task_done()
        _log.warning("the application closes: %d pings were not sent within %g s and are dropped", dropped, timeout)

    def _work(self) -> None:
        while True:
            try:
                job, url = self._waiting.get(timeout=IDLE)
            except queue.Empty:
                return
            try:
                self._ping(job, url)
            finally:
                self._waiting.task_done()

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
