"""Threads for plain functions that say who the tenants of a job are.

Each call has one of its own, made for it, so that a function that hangs takes none from handlers. A thread cannot be
stopped: when nobody waits for it any more it is told of by name, and what it says then is dropped. Where three hang for
one job, it is not asked again in this process until one of them ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from ..model.errors import MainspringError
from ..model.events import Trouble
from .loop import Emit

MOST_HANGING = 3


class TenantsHang(MainspringError):
    """The function that lists the tenants hangs too often to be asked again."""

    def __init__(self, job: str, threads: str) -> None:
        super().__init__(job, threads)
        self.job, self.threads = job, threads

    def __str__(self) -> str:
        return f"the function that lists the tenants of job {self.job!r} hangs in this process: {self.threads}"


class ListingThreads:
    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._hanging: dict[str, list[threading.Thread]] = {}
        self._made = 0

    async def call(self, job: str, function: Callable[[], Any]) -> Any:
        """What the function returns or raises."""
        hanging = [thread for thread in self._hanging.pop(job, ()) if thread.is_alive()]
        if hanging:
            self._hanging[job] = hanging
        if len(hanging) >= MOST_HANGING:
            raise TenantsHang(job, ", ".join(thread.name for thread in hanging))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            said = context.run(_said, function)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for this any more
                loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(said))

        self._made += 1
        thread = threading.Thread(target=work, name=f"mainspring-tenants-{job}-{self._made}", daemon=True)
        thread.start()
        try:
            value, error = await answer
        except asyncio.CancelledError:
            self._left(job, thread)
            raise
        if error is not None:
            raise error
        return value

    def _left(self, job: str, thread: threading.Thread) -> None:
        if thread.is_alive():
            self._hanging.setdefault(job, []).append(thread)
            told = f"the function that lists them was given up and has not ended: thread {thread.name} still runs it"
            self._emit(Trouble(f"tenants of job {job}", told))


def _said(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except BaseException as error:
        return None, error
