"""`POST /dashboard/jobs/{name}/...`: the forms that run, pause, cancel and remove a job, and change single runs of its
schedule."""

from __future__ import annotations

import re

from fastapi import APIRouter
from starlette.responses import Response

from .....core.render.entities import instant_text
from .....core.rules.secret_params import union
from .....model.errors import InvalidValue
from ...parameter_fields import read_params, signature_of
from ...visit import Operating, PageRoute

router = APIRouter(prefix="/dashboard/jobs/{name}", route_class=PageRoute, include_in_schema=False)


@router.post("/trigger")
async def trigger_job(sent: Operating, name: str) -> Response:
    """Run it now; what comes next is the page of the new execution."""
    visit, form = sent.visit, sent.form
    view = await visit.steerable(name)
    signature = signature_of(visit.application.registry, view.handler)
    params = read_params(form, signature, union(view.secret, () if signature is None else signature.secret))
    begin, end = form.get("window_begin"), form.get("window_end")
    if (begin is None) != (end is None):
        raise InvalidValue("window", begin or end, "both a begin and an end, or neither")
    tenants = [each.strip() for each in re.split(r"[\n,]", form.get("tenants") or "") if each.strip()]
    made = await visit.engine.manual_runs.trigger(
        name,
        params or None,
        window=None if begin is None else (begin, end),
        by=visit.by,
        trigger="api",
        tenants=tenants or None,
    )
    return visit.done(f"Job {name} was triggered.", visit.url("executions", made.id))


@router.post("/retry")
async def retry_job(sent: Operating, name: str) -> Response:
    visit = sent.visit
    made = await visit.steering.retry_job(name, by=visit.by)
    return visit.done(f"The last run of job {name} was retried.", visit.url("executions", made.id))


@router.post("/pause")
async def pause_job(sent: Operating, name: str) -> Response:
    """With a note, and an end if wanted: after some time, or at a time of the job's zone."""
    visit, form = sent.visit, sent.form
    await visit.steering.pause(
        name, by=visit.by, note=form.get("note"), resume_at=form.get("resume_at"), resume_after=form.get("resume_after")
    )
    return visit.done(f"Job {name} is paused.", visit.url("jobs", name), undo=visit.url("jobs", name, "resume"))


@router.post("/resume")
async def resume_job(sent: Operating, name: str) -> Response:
    visit = sent.visit
    paused = await visit.steerable(name)
    await visit.steering.resume(name, by=visit.by)
    again = {"note": paused.pause_note or "", "resume_at": instant_text(paused.resume_at) or ""}
    words, pause = f"Job {name} runs again.", visit.url("jobs", name, "pause")
    return visit.done(words, visit.url("jobs", name), undo=pause, fields=again)


@router.post("/cancel")
async def cancel_job(sent: Operating, name: str) -> Response:
    visit = sent.visit
    await visit.steering.cancel_job(name, by=visit.by, reason=sent.form.get("reason"))
    words = f"Job {name} is cancelled, and so are its waiting and running executions."
    return visit.done(words, visit.url("jobs", name), undo=visit.url("jobs", name, "reactivate"))


@router.post("/reactivate")
async def reactivate_job(sent: Operating, name: str) -> Response:
    visit = sent.visit
    await visit.steering.reactivate(name, by=visit.by)
    return visit.done(f"Job {name} is back on its schedule.", visit.url("jobs", name))


@router.post("/delete")
async def delete_job(sent: Operating, name: str) -> Response:
    visit, form = sent.visit, sent.form
    await visit.steering.remove_job(name, by=visit.by, force=form.checked("force"), purge=form.checked("purge"))
    return visit.done(f"Job {name} was deleted.", visit.url("jobs"))


# --- single runs of the schedule --------------------------------------------------------------------------------


@router.post("/occurrences/skip")
async def skip_occurrence(sent: Operating, name: str) -> Response:
    visit, at = sent.visit, sent.form.get("at")
    await visit.steering.skip_occurrence(name, at, by=visit.by)
    restore = visit.url("jobs", name, "occurrences", "restore")
    return visit.done(f"The run at {at} is skipped.", visit.url("jobs", name), undo=restore, fields={"at": at or ""})


@router.post("/occurrences/move")
async def move_occurrence(sent: Operating, name: str) -> Response:
    """The new time is one of the job's zone."""
    visit, at, to = sent.visit, sent.form.get("at"), sent.form.get("to")
    await visit.steering.move_occurrence(name, at, to, by=visit.by)
    restore = visit.url("jobs", name, "occurrences", "restore")
    return visit.done(f"The run at {at} is moved.", visit.url("jobs", name), undo=restore, fields={"at": at or ""})


@router.post("/occurrences/restore")
async def restore_occurrence(sent: Operating, name: str) -> Response:
    visit = sent.visit
    await visit.steering.restore_occurrence(name, sent.form.get("at"), by=visit.by)
    return visit.done("The run is back at its own time.", visit.url("jobs", name))
