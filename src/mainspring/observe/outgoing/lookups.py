"""What a request needs that would block the event loop: looking up a name, reading the certificates that TLS trusts.

Each runs in a daemon thread, one per name at a time: requests that want the same name share a lookup. A name server
that never answers holds a few threads for its domain. The other names of that domain wait for those threads; names of
other domains, and the threads of plain functions, wait for none of them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...model.values.address_classes import IPAddress
from ...model.values.web_address import domain_of

MOST_AT_ONCE = 256
MOST_OF_ONE_DOMAIN = 8

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
_Work = Callable[[], Any]


class Lookups:
    """Shared by all event loops of the process. `noun` is for the error when too many are in progress."""

    def __init__(self, noun: str = "name lookups") -> None:
        self._noun = noun
        self._lock = threading.Lock()
        self._waiting: dict[object, list[_Waiter]] = {}
        """Who waits for what is queued or in progress."""
        self._queued: dict[object, dict[object, _Work]] = {}
        """By group."""
        self._threads: Counter[object] = Counter()
        """By group."""

    async def call(self, key: object, work: _Work, group: object = None) -> Any:
        """What `work` returns; calls under the same key while it runs get the same answer. A group has
        `MOST_OF_ONE_DOMAIN` threads."""
        loop = asyncio.get_running_loop()
        waiter = loop, loop.create_future()
        group = key if group is None else group
        with self._lock:
            if key not in self._waiting:
                self._begin(key, work, group)
                self._waiting[key] = []
            self._waiting[key].append(waiter)
        try:
            return await waiter[1]
        finally:
            self._leave(key, waiter, group)

    def _begin(self, key: object, work: _Work, group: object) -> None:
        if self._threads[group] >= MOST_OF_ONE_DOMAIN:
            self._queued.setdefault(group, {})[key] = work
            return
        if self._threads.total() >= MOST_AT_ONCE:
            raise OSError(f"{MOST_AT_ONCE} {self._noun} are in progress and none has ended yet")
        thread = threading.Thread(target=self._run, args=(key, work, group), name="mainspring-lookup", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads
            raise OSError(f"no thread for {self._noun}: {error}") from None
        self._threads[group] += 1

    def _leave(self, key: object, waiter: _Waiter, group: object) -> None:
        """What nobody waits for any more is not begun."""
        with self._lock:
            waiters, queued = self._waiting.get(key, []), self._queued.get(group, {})
            if waiter in waiters:
                waiters.remove(waiter)
            if key in queued and not waiters:
                del queued[key], self._waiting[key]

    def _run(self, key: object, work: _Work, group: object) -> None:
        while True:
            value, error = None, None
            try:
                value = work()
            except Exception as problem:
                error = problem
            with self._lock:
                waiters = self._waiting.pop(key)
            for loop, answer in waiters:
                with suppress(RuntimeError):  # its event loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(_deliver, answer, value, error)
            with self._lock:
                queued = self._queued.get(group)
                if not queued:
                    self._queued.pop(group, None)
                    self._threads -= Counter({group: 1})
                    return
                key = next(iter(queued))
                work = queued.pop(key)


def _deliver(answer: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(OSError(f"{type(error).__name__}: {error}"))


LOOKUPS = Lookups()


async def addresses_of(host: str) -> list[IPAddress]:
    """The addresses of a host in the order in which they are to be tried; those of a literal address are itself."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        found: list[IPAddress] = await LOOKUPS.call(host, lambda: _resolve(host), domain_of(host))
        return found


def _resolve(host: str) -> list[IPAddress]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ipaddress.ip_address(where[0]) for *_, where in found))
