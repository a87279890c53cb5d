"""Who would run it: why none of the processes that are heard of takes an execution, for jobs and executions alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from ..model.changes import WorkerInfo
from ..model.execution import Execution


class Reason(msgspec.Struct, frozen=True):
    """`blocking` tells what keeps the job from running from what is merely so: it runs, or its time has not come."""

    code: str
    message: str
    blocking: bool = True
    details: dict[str, Any] = {}


def nobody_for(handler: str, queue: str, workers: Sequence[WorkerInfo]) -> Reason | None:
    """Why none of these processes would ever take it; None when one of them would."""
    if not workers:
        return Reason("no_worker", "no process is running")
    if not (at_work := [worker for worker in workers if "worker" in worker.roles]):
        return Reason("no_worker", "no running process has the role worker")
    if not (able := [worker for worker in at_work if handler in worker.handlers]):
        message = f"none of {len(at_work)} running worker(s) has the handler {handler!r}, or they exclude it"
        return Reason("no_handler", message, details={"handler": handler})
    if not any(_takes_from(worker, queue) for worker in able):
        message = f"no worker that has the handler takes from the queue {queue!r}"
        return Reason("queue_not_served", message, details={"queue": queue})
    return None


def all_busy(handler: str, queue: str, workers: Sequence[WorkerInfo]) -> Reason | None:
    """That every process which would take it is full; None when one of them is not."""
    serving = [
        worker
        for worker in workers
        if "worker" in worker.roles and handler in worker.handlers and _takes_from(worker, queue)
    ]
    if not serving or any(worker.running < worker.concurrency for worker in serving):
        return None
    busy, slots = (sum(getattr(worker, name) for worker in serving) for name in ("running", "concurrency"))
    message = f"all slots are busy: {busy} of {slots} on {len(serving)} worker(s)"
    return Reason("slots_busy", message, details={"running": busy, "slots": slots})


def counted(workers: Sequence[WorkerInfo], running: Sequence[Execution]) -> list[WorkerInfo]:
    """The processes with what they run now; what they say themselves is as old as their last heartbeat."""
    owners = Counter(each.owner for each in running)
    return [msgspec.structs.replace(worker, running=owners[worker.id]) for worker in workers]


def _takes_from(worker: WorkerInfo, queue: str) -> bool:
    return worker.queues is None or queue in worker.queues
