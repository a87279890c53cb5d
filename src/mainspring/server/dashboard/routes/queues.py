"""`/dashboard/queues`: what waits and runs in each queue, its ceilings and pauses, and the handlers in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from ....core.filters.jobs import JobFilter
from ....core.monitoring.queues import is_own, serves
from ....core.views.queues import PauseView, QueueView
from ....core.views.records import worker_view
from ....model.controls import Subject
from ....model.store.messages import WorkerInfo
from ..drawing import charts
from ..visit import Operating, PageRoute, Sent, Viewing

router = APIRouter(prefix="/dashboard", route_class=PageRoute, include_in_schema=False)

PAGE = 40
JOBS = 20
Sort = Literal["name", "-ready", "-oldest", "-running", "-planned", "-parked", "-rate_in", "-rate_out"]


@router.get("/queues")
async def queues_page(
    visit: Viewing,
    search: Annotated[str, Query(max_length=200)] = "",
    sort: Sort = "name",
    page: Annotated[int, Query(ge=1, le=1_000)] = 1,
) -> Response:
    everything, workers = await asyncio.gather(visit.engine.queues.all(), visit.engine.queries.workers())
    shared = _shared(everything, workers)
    found = _sorted([each for each in everything if search.lower() in each.name.lower()], sort)
    shown = found[(page - 1) * PAGE : page * PAGE]
    return visit.page(
        "queues/list.html",
        queues=shown,
        pictures={each.name: _pictures(each, each.name in shared) for each in shown},
        found=len(found),
        search=search,
        sort=sort,
        page=page,
        more=page * PAGE < len(found),
        is_own=is_own,
        idle=not everything,
    )


@router.get("/queues/{name}")
async def queue_page(visit: Viewing, name: str) -> Response:
    engine = visit.engine
    queue = await engine.queues.get(name)
    jobs, workers, drains, everything = await asyncio.gather(
        engine.job_lists.page(JobFilter(queue=name), limit=JOBS),
        engine.queries.workers(),
        engine.queues.drains(),
        engine.queues.all(),
    )
    counts = {each.name: each for each in queue.handlers}
    handlers = sorted({*counts, *(job.handler for job in jobs.jobs)})
    serving = [each for each in workers if serves(each, name)]
    return visit.page(
        "queues/one.html",
        queue=queue,
        pictures=_pictures(queue, name in _shared(everything, workers)),
        jobs=jobs.jobs,
        job_count=jobs.total,
        counts=counts,
        handlers=await asyncio.gather(*(engine.queues.handler(each) for each in handlers)),
        workers=[worker_view(each) for each in serving],
        drains=drains,
        is_own=is_own,
    )


@router.post("/queues/{name}/pause")
async def pause_queue(sent: Operating, name: str) -> Response:
    return await _pause(sent, "queue", name)


@router.post("/queues/{name}/resume")
async def resume_queue(sent: Operating, name: str) -> Response:
    return await _resume(sent, "queue", name, (await sent.visit.engine.queues.get(name)).pause)


@router.post("/queues/{name}/limit")
async def limit_queue(sent: Operating, name: str) -> Response:
    visit, form = sent.visit, sent.form
    before = await visit.engine.queues.get(name)
    after = await visit.engine.controls.limit(
        name, by=visit.by, concurrency=form.whole("concurrency"), rate=form.get("rate")
    )
    ceilings = " and ".join(ceiling_words(after.concurrency, after.rate))
    words = f"At most {ceilings}: all processes follow within 2 s." if ceilings else "It no longer has a limit."
    fields = {} if before.concurrency is None else {"concurrency": str(before.concurrency)}
    fields |= {} if before.rate is None else {"rate": rate_text(before.rate)}
    return visit.done(f"Queue {name}: {words}", undo=visit.url("queues", name, "limit"), fields=fields)


@router.post("/handlers/{name}/pause")
async def pause_handler(sent: Operating, name: str) -> Response:
    await sent.visit.may_steer_handler(name)
    return await _pause(sent, "handler", name)


@router.post("/handlers/{name}/resume")
async def resume_handler(sent: Operating, name: str) -> Response:
    await sent.visit.may_steer_handler(name)
    return await _resume(sent, "handler", name, (await sent.visit.engine.queues.handler(name)).pause)


async def _pause(sent: Sent, subject: Subject, name: str) -> Response:
    visit, form = sent.visit, sent.form
    await visit.engine.controls.pause(
        subject,
        name,
        by=visit.by,
        note=form.get("note"),
        until=form.instant("resume_at", visit.zone),
        lasts=form.get("resume_after"),
    )
    undo = visit.url(f"{subject}s", name, "resume")
    words = "Within 2 s, no process starts more executions of it; running ones finish."
    return visit.done(f"{subject.capitalize()} {name} is paused. {words}", undo=undo)


async def _resume(sent: Sent, subject: Subject, name: str, before: PauseView | None) -> Response:
    visit = sent.visit
    await visit.engine.controls.resume(subject, name, by=visit.by)
    fields = {} if before is None or before.note is None else {"note": before.note}
    if before is not None and before.resume_at is not None:
        fields["resume_at"] = before.resume_at.isoformat()
    undo = visit.url(f"{subject}s", name, "pause")
    return visit.done(f"{subject.capitalize()} {name} runs again.", undo=undo, fields=fields)


# --- words and pictures


def ceiling_words(concurrency: int | None, rate: float | None) -> list[str]:
    """
    >>> ceiling_words(5, 0.5)
    ['5 run at once', '30/m start']
    """
    found = [] if concurrency is None else [f"{concurrency:,} run at once"]
    return found if rate is None else [*found, f"{rate_text(rate)} start"]


def rate_text(rate: float) -> str:
    """A rate per second as people write it.

    >>> rate_text(50.0), rate_text(0.5), rate_text(1 / 3600)
    ('50/s', '30/m', '1/h')
    """
    for unit, seconds in (("s", 1), ("m", 60), ("h", 3_600)):
        count = rate * seconds
        if count >= 1 and abs(count - round(count)) < 1e-9 * count:
            return f"{round(count)}/{unit}"
    return f"{rate:.9f}".rstrip("0") + "/s"


def _sorted(queues: list[QueueView], sort: Sort) -> list[QueueView]:
    if sort == "name":
        return queues
    field = sort.removeprefix("-")
    return sorted(queues, key=lambda each: (-(getattr(each, field) or 0), each.name))


def _shared(queues: list[QueueView], workers: Sequence[WorkerInfo]) -> set[str]:
    """The queues whose workers serve others too, so that both have the same slots."""
    served = ([each.name for each in queues if not each.own and serves(worker, each.name)] for worker in workers)
    return {name for names in served if len(names) > 1 for name in names}


def _pictures(queue: QueueView, shared: bool) -> dict[str, object]:
    taken = f"{queue.running:,} of {queue.slots:,} slots run executions of {queue.name}"
    rates = f"{queue.rate_in:,.1f} in and {queue.rate_out:,.1f} out per minute"
    return {
        "slots": charts.slots(queue.running, queue.slots, taken, most=12),
        "shared": shared,
        "rates": charts.two_rates(queue.rate_in, queue.rate_out, rates),
        "ceilings": ceiling_words(queue.concurrency, queue.rate),
        "rate": "" if queue.rate is None else rate_text(queue.rate),
    }
