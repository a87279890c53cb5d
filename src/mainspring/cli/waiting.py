"""Why an execution has not begun: what people ask first when nothing happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ..app import Mainspring
from ..core.limiting import limit_words
from ..core.views import JobView
from ..model.changes import WorkerInfo
from ..model.execution import Execution, State
from .output import moment, note


async def waits_for(app: Mainspring, execution: Execution, job: JobView | None, now: datetime) -> str:
    """What a pending execution waits for, in words; empty when somebody is about to take it."""
    if execution.state is not State.PENDING:
        return ""
    ahead = await app.executions(execution.job, running=True, limit=1) if execution.staged else []
    cancelled = job is not None and job.cancelled_at is not None
    return "; ".join(reasons(execution, await app.workers(), now, cancelled=cancelled, ahead=ahead))


def reasons(
    execution: Execution,
    workers: Sequence[WorkerInfo],
    now: datetime,
    *,
    cancelled: bool = False,
    ahead: Sequence[Execution] = (),
) -> Iterator[str]:
    if cancelled:
        yield "nothing: its job is cancelled, and so will it be"
        return
    if execution.parked is not None:
        yield f"its turn: {limit_words(execution, execution.parked)}"
    elif ahead:
        yield f"execution {ahead[0].id} to end"
    elif execution.start_at > now:
        yield f"its {'next try' if execution.failures else 'start'} at {moment(execution.start_at, now)}"
    if missing := nobody_for(execution, workers):
        yield missing
    elif (
        execution.start_at <= now and not ahead and execution.parked is None and (full := _all_busy(execution, workers))
    ):
        yield full


def nobody_for(execution: Execution, workers: Sequence[WorkerInfo]) -> str:
    """Why none of these processes would take it; empty when one of them would."""
    if not workers:
        return "no process is running"
    if not (at_work := [worker for worker in workers if "worker" in worker.roles]):
        return "no running process has the role worker"
    if not (with_handler := [worker for worker in at_work if execution.handler in worker.handlers]):
        return f"no running process has handler {execution.handler!r}"
    if not any(_takes_from(worker, execution.queue) for worker in with_handler):
        return f"no running process takes from queue {execution.queue!r}"
    return ""


async def say_if_nobody_comes(app: Mainspring, execution: Execution) -> None:
    """One line for somebody who is about to wait in vain."""
    if execution.state is State.PENDING and (missing := nobody_for(execution, await app.workers())):
        note(f"execution {execution.id} queued; {missing}, so it waits. Ctrl-C leaves it queued")


def _takes_from(worker: WorkerInfo, queue: str) -> bool:
    return worker.queues is None or queue in worker.queues


def _all_busy(execution: Execution, workers: Sequence[WorkerInfo]) -> str:
    able = [w for w in workers if execution.handler in w.handlers and _takes_from(w, execution.queue)]
    places = sum(worker.concurrency for worker in able)
    return f"a free place: all {places} are taken" if sum(worker.running for worker in able) >= places else ""
