"""Adds the fields of the current execution to every log record, also to those of code that knows nothing of jobs."""

from __future__ import annotations

import logging

from ...core.declaring.context import current_context
from ...core.views.execution import row_of
from ...model.execution import ExecutionRow


class ExecutionFields(logging.Filter):
    """A filter for a handler of your own: it passes every record, and adds `job`, `trigger`, `trace_id`,
    `execution_id`, `attempt` and `tenant` to those that were logged below a job's handler.

        {"filters": {"execution": {"()": "mainspring.observe.logs.context.ExecutionFields"}}, ...}

    This includes tasks that the handler starts and `asyncio.to_thread`; a bare `threading.Thread` has no fields unless
    it runs in `contextvars.copy_context()`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        add_execution_fields(record)
        return True


def add_execution_fields(record: logging.LogRecord) -> None:
    context = current_context.get(None)
    if context is not None and "execution_id" not in record.__dict__:
        record.__dict__.update(fields_of_execution(row_of(context.execution)) | record.__dict__)


def fields_of_execution(execution: ExecutionRow) -> dict[str, object]:
    return {
        "job": execution.job,
        "trigger": execution.trigger,
        "trace_id": execution.trace_id,
        "execution_id": execution.id,
        "attempt": execution.attempt,
        "tenant": execution.tenant,
    }
