"""What a request needs that would block the event loop: looking up a name, reading the certificates that TLS trusts.

Each runs in a daemon thread of its own, one per name at a time: requests that want the same name share a lookup, so a
name server that never answers costs one thread for each name, and neither another name nor the threads of plain
functions wait for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .addresses import IPAddress

MOST_AT_ONCE = 64

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Lookups:
    """Shared by all event loops of the process. `noun` is for the error when too many are in progress."""

    def __init__(self, noun: str = "name lookups") -> None:
        self._noun = noun
        self._lock = threading.Lock()
        self._waiting: dict[object, list[_Waiter]] = {}

    async def call(self, key: object, work: Callable[[], Any]) -> Any:
        """What `work` returns; calls under the same key while it runs get the same answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            if key not in self._waiting and len(self._waiting) >= MOST_AT_ONCE:
                raise OSError(f"{MOST_AT_ONCE} {self._noun} are in progress and none has ended yet")
            first = key not in self._waiting
            self._waiting.setdefault(key, []).append((loop, answer))
        if first:
            threading.Thread(target=self._run, args=(key, work), name="mainspring-lookup", daemon=True).start()
        return await answer

    def _run(self, key: object, work: Callable[[], Any]) -> None:
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
        found: list[IPAddress] = await LOOKUPS.call(host, lambda: _resolve(host))
        return found


def _resolve(host: str) -> list[IPAddress]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ipaddress.ip_address(where[0]) for *_, where in found))
