"""A backend for Django Tasks: tasks are jobs, and their results are executions.

TASKS = {"default": {"BACKEND": "mainspring.contrib.django.TasksBackend"}}

A task is registered as a job when it is defined, under its module path. A worker runs what is registered in its own
code: it never imports the name that is stored with an execution.

`django.tasks` of Django 6.0 and the package `django-tasks` have the same interface; the package is used if it is among
INSTALLED_APPS.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from ...core.declaring.context import JobContext
from ...core.declaring.options import known_options
from ...core.views.execution import Attempt, Execution, row_of
from ...model.errors import (
    ExecutionCancelled,
    InvalidValue,
    MainspringError,
    NonRetryable,
    NotFound,
    RetryAfter,
    Skip,
)
from ...model.execution import State
from ...model.time.instants import maybe_datetime
from . import app

if apps.is_installed("django_tasks"):
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json
else:
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

BACKEND, ERRORS = "task_backend", "task_errors"
"""What is kept in the metadata of an execution: the alias of the backend, and the classes of errors by attempt."""

STATUSES = {
    State.PENDING: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.WAITING: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
}
"""Every other state is FAILED: failed for good, cancelled or skipped."""
FINAL = (NonRetryable, Skip)
"""Errors that end a task, whatever attempts are left."""
ASKS_AGAIN = (RetryAfter, ExecutionCancelled, CancelledError)
UNCOUNTED = ("handed_back", "snoozed")
"""Endings that use no attempt: a worker that stops gives back what it has not finished."""


class TasksBackend(BaseTaskBackend):  # type: ignore[misc]  # Django ships no types
    """Runs tasks as jobs of Mainspring. OPTIONS are options of those jobs: `max_attempts`, `timeout`, `retry` ... An
    exception ends a task, as with Django's own backends, unless OPTIONS give it more attempts."""

    supports_defer = True
    """Tasks may have `run_after`."""
    supports_async_task = True
    """Tasks may be coroutine functions."""
    supports_get_result = True
    """Results of tasks can be read by their ids."""
    supports_priority = True
    """Tasks may have priorities."""

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        try:
            known_options(dict(self.options))
        except MainspringError as error:
            raise ImproperlyConfigured(f"TASKS[{alias!r}]['OPTIONS']: {error}") from error

    def validate_task(self, task: Any) -> None:
        """Django calls this when a task is defined; here the task becomes a job."""
        super().validate_task(task)
        _register(task, self.options)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue the task as an execution of its job, and return its `TaskResult`."""
        self.validate_task(task)
        params = {"args": normalize_json(list(args)), "kwargs": normalize_json(dict(kwargs))}
        execution = app.sync.enqueue(
            task.module_path,
            params,
            priority=task.priority,
            queue=task.queue_name,
            start_at=task.run_after,
            metadata={BACKEND: self.alias},
        )
        assert execution is not None, "tasks have no unique keys"
        result = _result(task, execution)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """The `TaskResult` of an execution; raises `TaskResultDoesNotExist` if there is none with this id."""
        try:
            execution = app.sync.get(str(result_id))
        except (NotFound, InvalidValue):
            raise TaskResultDoesNotExist(result_id) from None
        task = _tasks.get(execution.job)
        if task is None or BACKEND not in execution.metadata:
            raise TaskResultDoesNotExist(result_id)
        return _result(_as_enqueued(task, execution), execution)


_tasks: dict[str, Any] = {}
"""The tasks of this process, by module path."""


def _register(task: Any, options: Mapping[str, Any]) -> None:
    """Once for each function: `task.using(...)` makes further objects for the same one."""
    name = task.module_path
    known = _tasks.get(name)
    if known is not None and known.func is task.func:
        return
    _tasks[name] = task
    handler = _awaited(name) if iscoroutinefunction(task.func) else _blocking(name)
    handler.__doc__ = task.func.__doc__
    declared = {"queue": task.queue_name, "priority": task.priority, "max_attempts": 1, "allow_override": True}
    app._runtime.registry.declare(name, handler, **(declared | dict(options)))


def _blocking(name: str) -> Any:
    def run_task(ctx: JobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with _Running(name, ctx) as running:
            return running.returned(running.task.call(*running.context, *args, **kwargs))

    return run_task


def _awaited(name: str) -> Any:
    async def run_task(ctx: JobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with _Running(name, ctx) as running:
            return running.returned(await running.task.acall(*running.context, *args, **kwargs))

    return run_task


class _Running:
    """One attempt at a task: its signals, and the class of its error."""

    def __init__(self, name: str, ctx: JobContext) -> None:
        self._ctx = ctx
        self.task = _as_enqueued(_tasks[name], ctx.execution)
        self._result = _result(self.task, ctx.execution)
        self._sender = type(self.task.get_backend())
        self.context = [TaskContext(task_result=self._result)] if self.task.takes_context else []

    def __enter__(self) -> _Running:
        task_started.send_robust(self._sender, task_result=self._result)
        return self

    def returned(self, value: Any) -> Any:
        normal = normalize_json(value)
        self._end(TaskResultStatus.SUCCESSFUL, _return_value=normal)
        return normal

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is None or error is None or self._goes_on(error):
            return
        self._ctx.metadata[ERRORS] = {**self._ctx.metadata.get(ERRORS, {}), str(self._ctx.attempt): _path(kind)}
        if isinstance(error, FINAL) or self._ctx.attempt >= self._ctx.execution.max_attempts:
            self._end(TaskResultStatus.FAILED)

    def _goes_on(self, error: BaseException) -> bool:
        """It asks for another try, or was told to stop: a worker that stops hands it back, to run again elsewhere."""
        return self._ctx.cancelled or isinstance(error, ASKS_AGAIN)

    def _end(self, status: Any, **fields: Any) -> None:
        for name, value in {"status": status, "finished_at": timezone.now(), **fields}.items():
            object.__setattr__(self._result, name, value)
        task_finished.send_robust(self._sender, task_result=self._result)


# --- executions as results --------------------------------------------------------------------------------------


def _as_enqueued(task: Any, execution: Execution) -> Any:
    """The task as it was when it was enqueued: with another priority, queue or time than it was defined with."""
    late = execution.start_at if execution.start_at > execution.created_at and not execution.attempts else None
    return task.using(
        priority=execution.priority,
        queue_name=execution.queue,
        run_after=late,
        backend=execution.metadata.get(BACKEND, task.backend),
    )


def _result(task: Any, execution: Execution) -> Any:
    counted = [each for each in execution.attempts if each.end not in UNCOUNTED]
    running = [execution.worker] if execution.state is State.RUNNING and execution.worker else []
    result = TaskResult(
        task=task,
        id=execution.id,
        status=STATUSES.get(execution.state, TaskResultStatus.FAILED),
        enqueued_at=execution.created_at,
        started_at=execution.started_at,
        finished_at=execution.finished_at,
        last_attempted_at=_last_attempted(execution, counted),
        args=execution.params["args"],
        kwargs=execution.params["kwargs"],
        backend=task.backend,
        errors=_errors(execution, counted),
        worker_ids=[*(each.worker for each in counted), *running],
    )
    object.__setattr__(result, "_return_value", execution.result)
    return result


def _last_attempted(execution: Execution, attempts: Sequence[Attempt]) -> Any:
    if execution.state is State.RUNNING:
        return maybe_datetime(row_of(execution).claimed)
    return attempts[-1].started_at if attempts else execution.started_at


def _errors(execution: Execution, attempts: Sequence[Attempt]) -> list[Any]:
    """One for each attempt that failed."""
    raised = execution.metadata.get(ERRORS, {})
    return [
        TaskError(
            exception_class_path=raised.get(str(each.number)) or _class_of(each),
            traceback=each.traceback or each.error or each.end,
        )
        for each in attempts
        if each.end not in ("completed", "skipped")
    ]


def _class_of(attempt: Attempt) -> str:
    """For what the task did not raise itself, such as the loss of its worker."""
    return _path(TimeoutError if attempt.end == "timeout" else MainspringError)


def _path(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
