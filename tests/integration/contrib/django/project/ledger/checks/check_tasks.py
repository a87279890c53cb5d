"""The backend for Django Tasks."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import TestCase
from django.utils import timezone

from mainspring import NonRetryable, RetryAfter
from mainspring.contrib.django import TasksBackend, app
from mainspring.contrib.django.testing import harness

from ..models import Entry
from ..tasks import ANSWERS, add_up, always_fails, create, fails_once, raises_answers

if settings.HAS_TASKS:
    from django.tasks import default_task_backend
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
else:
    from django_tasks import default_task_backend
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started


class TasksTests(TestCase):
    def test_a_task_is_a_job_and_its_result_an_execution(self) -> None:
        with harness() as kit:
            result = add_up.enqueue(1, 2, start=3)
            assert (result.status, result.attempts, result.args, result.kwargs) == ("READY", 0, [1, 2], {"start": 3})
            kit.assert_enqueued("ledger.tasks.add_up", {"args": [1, 2], "kwargs": {"start": 3}})
            kit.run_until_idle()
            result.refresh()
            assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 6, 1)
            assert result.worker_ids == ["testing-kit"]
            assert result.started_at == result.last_attempted_at <= result.finished_at
            assert add_up.get_result(result.id).return_value == 6
            for unknown in ("nobody", "01a1ef18-87fc-7604-85b4-499218841d6a"):
                with pytest.raises(TaskResultDoesNotExist):
                    default_task_backend.get_result(unknown)

    def test_priority_queue_and_time(self) -> None:
        with harness() as kit:
            at = timezone.now() + timedelta(hours=1)
            result = create.using(run_after=at, priority=-100).enqueue("later")
            [execution] = kit.assert_enqueued("ledger.tasks.create", queue="mail", priority=-100)
            assert abs(execution.start_at - at) < timedelta(seconds=1)
            kit.run_until_idle()
            assert not Entry.objects.exists()
            kit.advance("2h")
            result.refresh()
            assert result.return_value == {"pk": Entry.objects.get(name="later").pk}
            assert (result.task.priority, result.task.queue_name) == (-100, "mail")
        with pytest.raises(InvalidTask):
            add_up.using(queue_name="nowhere")

    def test_attempts_errors_and_context(self) -> None:
        with harness(raise_errors=False) as kit:
            once, always = fails_once.enqueue("no"), always_fails.enqueue()
            kit.run_until_idle()
            once.refresh()
            always.refresh()
        assert (once.status, once.return_value, once.attempts) == ("SUCCESSFUL", [2, "no"], 2)
        [error] = once.errors
        assert (error.exception_class, "LookupError: no" in error.traceback) == (LookupError, True)
        assert (always.status, len(always.errors), always.attempts) == ("FAILED", 2, 2)

    def test_signals(self) -> None:
        seen = []
        receivers = {}
        for name, signal in [("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)]:
            receivers[signal] = lambda sender, task_result, name=name, **_: seen.append((name, task_result.status))
            signal.connect(receivers[signal])
        try:
            with harness(raise_errors=False) as kit:
                add_up.enqueue(1)
                kit.run_until_idle()
                always_fails.enqueue()
                kit.run_until_idle()
                for answers in ([LookupError("no"), RetryAfter(1)], [NonRetryable("never")]):
                    ANSWERS[:] = answers
                    raises_answers.enqueue()
                    kit.run_until_idle()
        finally:
            for signal, receiver in receivers.items():
                signal.disconnect(receiver)
        assert seen == [
            *[("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")],
            *[("enqueued", "READY"), ("started", "RUNNING"), ("started", "RUNNING"), ("finished", "FAILED")],
            *[("enqueued", "READY"), *[("started", "RUNNING")] * 3, ("finished", "SUCCESSFUL")],
            *[("enqueued", "READY"), ("started", "RUNNING"), ("finished", "FAILED")],
        ]

    async def test_async(self) -> None:
        async with harness() as kit:
            result = await create.aenqueue("tea")
            await kit.run_until_idle()
            await result.arefresh()
            assert (await create.aget_result(result.id)).status == "SUCCESSFUL"
        assert await Entry.objects.filter(name="tea").aexists()

    def test_options_are_options_of_jobs(self) -> None:
        assert app._runtime.registry.get("ledger.tasks.add_up").defaults["max_attempts"] == 2
        with pytest.raises(ImproperlyConfigured, match=r"TASKS\['default'\]\['OPTIONS'\]: .*max_attempts"):
            TasksBackend("default", {"OPTIONS": {"max_attemps": 2}})
