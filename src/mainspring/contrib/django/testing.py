"""For tests of a Django project: handlers run in the thread and transaction of the test.

class OrderTests(TestCase):
    def test_an_order_sends_its_receipt(self):
        with harness() as kit:
            self.client.post("/orders/", {"email": "ada@example.com"})
            kit.assert_enqueued("send-receipt", {"order_id": 1})
            kit.run_until_idle()
        self.assertEqual(len(mail.outbox), 1)

The kit is that of `mainspring.testing`: a store in memory, a clock that the test moves, assertions. What a test
enqueues inside `atomic()` counts unless it is rolled back, also under `TestCase`, whose own transaction is never
committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from asgiref.sync import async_to_sync, sync_to_async
from django.utils import timezone

from ...core.engine.thread_pool import Threads
from ...model.execution import ExecutionRow
from ...testing import harness as plain_harness
from ...testing.kit import BlockingKit, Kit, KitBase
from ...testing.one_by_one import Ran
from ...testing.recording import RecordingStore, immediately
from ...testing.stepping import Stepper
from . import app as django_app
from .application import DjangoMainspring

__all__ = ["JobsMixin", "harness"]


class TestThread:
    """Runs plain functions in the thread of the test, which has the test's connection and transaction."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[None]] = set()

    def run(self, function: Callable[[], Any], done: Callable[[Any], None]) -> None:
        call = asyncio.get_running_loop().create_task(self._call(function, done))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, function: Callable[[], Any], done: Callable[[Any], None]) -> None:
        done(await sync_to_async(function)())

    def close(self) -> None:
        """It owns no thread."""


class _InTheTest(KitBase):
    """What both kits change: where handlers run, and which executions exist."""

    def _threads(self) -> Threads:
        return TestThread()

    def _rows(self, what: Any = None, state: str | None = None) -> list[ExecutionRow]:
        self._store_deferred()
        return super()._rows(what, state)

    def _enqueued_rows(self, what: Any = None) -> list[ExecutionRow]:
        self._store_deferred()
        return super()._enqueued_rows(what)

    async def _stepping(self, work: Callable[[Stepper], Coroutine[Any, Any, None]]) -> None:
        self._store_deferred()
        await super()._stepping(work)

    def _on_run(self, ran: Ran) -> None:
        self._store_deferred()
        super()._on_run(ran)

    def _store_deferred(self) -> None:
        """Store what waits for the commit of a transaction, because that of a `TestCase` never comes."""
        assert isinstance(self.app, DjangoMainspring)
        waiting, self.app.deferred = self.app.deferred or [], []
        for each in waiting:
            if each.waits:
                immediately(each.enqueuer.add(each.rows))
                each.stored = True


class DjangoKit(_InTheTest, Kit):
    """For `async def` tests."""


class DjangoBlockingKit(_InTheTest, BlockingKit):
    """For plain tests."""

    def _run(self, work: Callable[[Stepper], Coroutine[Any, Any, None]]) -> None:
        """The event loop runs in another thread, and calls handlers in this one."""
        async_to_sync(self._stepping)(work)


class harness(plain_harness):
    """`with harness() as kit:` in a plain test, `async with harness() as kit:` in an async one.

    As `mainspring.testing.harness`, for the application of the Django project. The clock of the test begins now, unless
    there is a `start`.
    """

    _blocking_kit: ClassVar[type[BlockingKit]] = DjangoBlockingKit
    _async_kit: ClassVar[type[Kit]] = DjangoKit

    def __init__(self, app: DjangoMainspring = django_app, **options: Any) -> None:
        if options.get("start") is None and options.get("clock") is None:
            options["start"] = timezone.now() if timezone.is_aware(timezone.now()) else None
        super().__init__(app, **options)
        self._django_app = app

    def _exchange(self) -> RecordingStore:
        store = super()._exchange()
        self._django_app.deferred = []
        return store

    def _put_back(self) -> None:
        self._django_app.deferred = None
        super()._put_back()


class JobsMixin:
    """Gives every test of a `TestCase` a kit: `class OrderTests(JobsMixin, TestCase)`, then `self.jobs`."""

    jobs: BlockingKit
    """The kit of the current test."""
    jobs_options: ClassVar[dict[str, Any]] = {}
    """The arguments of `harness`."""

    def setUp(self) -> None:
        """Enter the harness, which ends with the test."""
        self._jobs_harness = harness(**self.jobs_options)
        self.jobs = self._jobs_harness.__enter__()
        self.addCleanup(self._jobs_harness.__exit__, None, None, None)  # type: ignore[attr-defined]  # of TestCase
        super().setUp()  # type: ignore[misc]  # of TestCase
