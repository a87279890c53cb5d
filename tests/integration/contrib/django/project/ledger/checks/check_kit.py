"""Handlers run in the thread and transaction of the test."""

import threading

from django.db import transaction
from django.test import TestCase, TransactionTestCase

from mainspring.contrib.django import app
from mainspring.contrib.django.testing import JobsMixin, harness
from mainspring.stores.memory import MemoryStore

from ..jobs import awaited, enqueues, in_process, in_thread, thread_of
from ..models import Entry


class InATransaction(TestCase):
    def test_every_kind_of_handler_sees_the_rows_of_the_test(self) -> None:
        Entry.objects.create(name="tea")
        with harness() as kit:
            for job in (in_thread, awaited, in_process, thread_of):
                app.sync.enqueue(job, {} if job is thread_of else {"name": "tea"})
            kit.run_until_idle()
            kit.assert_ran(thread_of, result=threading.get_ident())
            kit.assert_ran(in_process)
        assert Entry.objects.get().count == 3

    def test_what_is_rolled_back_was_never_enqueued(self) -> None:
        with harness(raise_errors=False) as kit:
            with transaction.atomic():
                enqueues.sync.enqueue(name="lost")
                transaction.set_rollback(True)
            kit.assert_not_enqueued(enqueues)
            enqueues.sync.enqueue(name="kept")
            enqueues.options(unique="once").sync.enqueue(name="failed", fail=True)
            kit.run_until_idle()
            kit.assert_enqueued(in_thread, {"name": "kept"}, count=1)
            kit.assert_failed(enqueues, {"name": "failed"}, error="rolled back")
        assert [(each.name, each.count) for each in Entry.objects.all()] == [("kept", 1)]

    def test_callbacks_of_a_commit_that_a_test_runs_itself(self) -> None:
        with harness() as kit:
            with self.captureOnCommitCallbacks(execute=True):
                thread_of.sync.enqueue()
            kit.assert_enqueued(thread_of, count=1)

    def test_without_a_kit_nothing_reaches_the_database_of_the_project(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            execution = thread_of.sync.enqueue()
        assert app.sync.get(execution.id).state.value == "pending"
        assert isinstance(app._runtime.given_store, MemoryStore)

    async def test_async(self) -> None:
        await Entry.objects.acreate(name="tea")
        async with harness() as kit:
            await in_thread.enqueue(name="tea")
            await app.enqueue_many([awaited.bind(name="tea")])
            kit.assert_enqueued(awaited, {"name": "tea"})
            await kit.run_until_idle()
            kit.assert_ran(in_thread)
        assert (await Entry.objects.aget()).count == 2


class WithTheMixin(JobsMixin, TransactionTestCase):
    jobs_options = {"start": "2026-03-01T00:00Z"}  # noqa: RUF012  # as Django's tests are written

    def test_with_real_commits(self) -> None:
        Entry.objects.create(name="tea")
        with transaction.atomic():
            in_thread.options(start_at="1h").sync.enqueue(name="tea")
        self.jobs.assert_enqueued(in_thread, start_at="1h", count=1)
        self.jobs.advance("2h")
        assert Entry.objects.get().count == 1
