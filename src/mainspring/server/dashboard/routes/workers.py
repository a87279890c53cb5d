"""`/dashboard/workers`: the processes that take part, what each runs, and draining them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from markupsafe import Markup
from starlette.responses import Response

from ....core.views.queues import PauseView
from ....core.views.records import WorkerView, worker_view
from ....model.execution import ExecutionRow
from ....model.time.instants import to_datetime
from .. import format
from ..drawing import charts
from ..visit import Operating, PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/workers", route_class=PageRoute, include_in_schema=False)

PAGE = 50
MOST_RUNNING = 200
"""How many running executions are read, to say what the slots hold."""
SHOWN = 3
"""How many of them are named beside the slots of a worker."""


class WorkerRow(msgspec.Struct, frozen=True):
    """One line of the page."""

    worker: WorkerView
    silent: bool
    drain: PauseView | None
    runs: list[ExecutionRow]
    picture: Markup

    @property
    def running(self) -> int:
        return _running(self.worker, self.runs)


@router.get("")
async def workers_page(
    visit: Viewing,
    search: Annotated[str, Query(max_length=200)] = "",
    page: Annotated[int, Query(ge=1, le=1_000)] = 1,
) -> Response:
    engine = visit.engine
    alive, silent, drains, running = await asyncio.gather(
        engine.queries.workers(),
        engine.queries.silent_workers(),
        engine.queues.drains(),
        engine.queries.executions(status="running", limit=MOST_RUNNING, system=True),
    )
    by_worker: dict[str, list[ExecutionRow]] = defaultdict(list)
    for run in running:
        by_worker[run.owner or ""].append(run)
    gone = {each.id for each in silent}
    working = [worker_view(each) for each in alive if "worker" in each.roles]
    everybody = [worker_view(each) for each in (*silent, *alive)]
    found = [each for each in everybody if search.lower() in _searched(each)]
    shown = sorted(found, key=lambda each: (each.id not in gone, each.host, each.pid))
    return visit.page(
        "workers.html",
        rows=[
            WorkerRow(each, each.id in gone, drains.get(each.id), by_worker[each.id], _picture(visit, each, by_worker))
            for each in shown[(page - 1) * PAGE : page * PAGE]
        ],
        count=len(alive),
        silent=len(silent),
        slots=sum(each.concurrency for each in working),
        running=sum(_running(each, by_worker[each.id]) for each in working),
        shown_runs=SHOWN,
        started=lambda run: to_datetime(run.started or run.created),
        found=len(found),
        search=search,
        page=page,
        more=page * PAGE < len(found),
    )


@router.post("/{id}/drain")
async def drain_worker(sent: Operating, id: str) -> Response:
    visit = sent.visit
    drained = await visit.engine.controls.drain(id, by=visit.by, note=sent.form.get("note"))
    words = f"Worker {drained} takes no more work and finishes what it runs."
    return visit.done(words, undo=visit.url("workers", drained, "undrain"))


@router.post("/{id}/undrain")
async def undrain_worker(sent: Operating, id: str) -> Response:
    visit = sent.visit
    before = (await visit.engine.queues.drains()).get(id)
    resumed = await visit.engine.controls.undrain(id, by=visit.by)
    fields = {} if before is None or before.note is None else {"note": before.note}
    return visit.done(f"Worker {resumed} takes work again.", undo=visit.url("workers", resumed, "drain"), fields=fields)


def _running(worker: WorkerView, runs: Sequence[ExecutionRow]) -> int:
    """As its last heartbeat says, or as the store does if that knows of more."""
    return max(worker.running, len(runs))


def _searched(worker: WorkerView) -> str:
    return " ".join(
        (worker.id, worker.host, worker.application, worker.release, *worker.roles, *(worker.queues or ()))
    ).lower()


def _picture(visit: Visit, worker: WorkerView, by_worker: dict[str, list[ExecutionRow]]) -> Markup:
    """Its slots, filled by what it runs; each is a link."""
    if "worker" not in worker.roles:
        return Markup("")
    runs = by_worker[worker.id]
    links = [(visit.url("executions", run.id), f"{run.job}, {_since(visit, run)}") for run in runs]
    count = _running(worker, runs)
    label = f"{count:,} of {worker.concurrency:,} slots are taken"
    return charts.slots(count, worker.concurrency, label, links)


def _since(visit: Visit, run: ExecutionRow) -> str:
    return f"started {format.relative(to_datetime(run.started or run.created), visit.now)}"
