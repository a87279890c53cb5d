"""`/dashboard/jobs/{name}/edit`: change a job over what code declares, see what that does to its schedule, and go back
to the code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, get_args

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from .....core.declaring.job_specs import options_of
from .....core.forecast.next_runs import ClockNote, NextRun, clock_notes, next_runs
from .....core.render.masking import masked, shown_params
from .....core.rules.secret_params import hide, mask_fields_pair
from .....core.views.job import JobView, calendars_of, job_of
from .....model.errors import InvalidValue
from .....model.job import effective_spec
from .....model.policies import RETRY_PRESETS, Overlap, Retry
from .....model.triggers import decode_trigger
from .....model.values.reading import duration_text
from ....access import Role, covers, needs
from ....routes.jobs import named_as_given
from ...differences import Difference
from ...format import cut, pretty_json
from ...forms import Form, whole_number
from ...parameter_fields import read_json_object
from ...visit import Operating, PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/jobs/{name}", route_class=PageRoute, include_in_schema=False)
OPERATORS = Depends(needs(Role.OPERATOR, cookies=True))

FIRES = 5
MOST_SHOWN = 1_000
"""Bytes of a value that a list of differences has room for."""
TEXTS = ("schedule", "timezone", "queue", "max_retries", "retry", "timeout", "overlap", "params")
"""The fields of the form, by their names over HTTP. `schedule_enabled` is a box, which sends nothing if it is empty."""


class SchedulePreview(msgspec.Struct, frozen=True):
    """What a schedule means; `error` says what is wrong with it."""

    words: str = ""
    tz: str = "UTC"
    fires: list[NextRun] = []
    notes: list[ClockNote] = []
    error: str | None = None


@router.get("/edit", dependencies=[OPERATORS])
async def edit_page(visit: Viewing, name: str) -> Response:
    view = await visit.steerable(name)
    return await _page(visit, view, form_values(view))


@router.post("/edit")
async def edit_job(sent: Operating, name: str) -> Response:
    """Change what differs from the job as the form showed it; a job that has changed since is left alone."""
    visit, seen = sent.visit, sent.form.get("seen")
    view = await visit.steerable(name)
    before = form_values(view)
    try:
        changes = _changes(view, before, sent.form)
        if not changes:
            return visit.done("Nothing was changed.", visit.url("jobs", name))
        with named_as_given():
            after = await visit.steering.update_job(name, options_of(changes), by=visit.by, seen=seen)
    except InvalidValue as error:
        words = str(hide(error, view.secret))
        return await _page(visit, view, _given(before, sent.form), seen=seen, error=words, status=422)
    words = f"Job {name} was edited: {', '.join(changes)}."
    old = {field: before[field] for field in changes} | {"seen": after.tag, "partial": "1"}
    return visit.done(words, visit.url("jobs", name), undo=visit.url("jobs", name, "edit"), fields=old)


@router.post("/preview")
async def preview_page(sent: Operating, name: str) -> Response:
    """The form again, as it was filled in, with what its schedule would do."""
    visit, form = sent.visit, sent.form
    view = await visit.steerable(name)
    values = _given(form_values(view), form)
    preview = await _preview(visit, view, values["schedule"], values["timezone"])
    return await _page(visit, view, values, seen=form.get("seen"), preview=preview)


@router.get("/preview", dependencies=[OPERATORS])
async def preview_fragment(
    visit: Viewing,
    name: str,
    schedule: Annotated[str, Query(max_length=500)] = "",
    timezone: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """What a schedule means and when it runs, for the script of the form."""
    view = await visit.steerable(name)
    preview = await _preview(visit, view, schedule.strip(), timezone.strip() or view.tz)
    return visit.page("jobs/preview.html", preview=preview)


@router.post("/revert")
async def revert_job(sent: Operating, name: str) -> Response:
    """Take back every change that operators made."""
    visit = sent.visit
    await visit.steering.revert_job(name, by=visit.by, seen=sent.form.get("seen"))
    return visit.done(f"Job {name} is again as it was declared.", visit.url("jobs", name))


# --- the form ---------------------------------------------------------------------------------------------------


async def _page(
    visit: Visit,
    view: JobView,
    values: Mapping[str, str],
    *,
    seen: str | None = None,
    preview: SchedulePreview | None = None,
    error: str | None = None,
    status: int = 200,
) -> Response:
    return visit.page(
        "jobs/edit.html",
        status,
        job=view,
        values=values,
        seen=seen or view.tag,
        preview=preview or await _shown(visit, view),
        error=error,
        overlaps=get_args(Overlap),
        presets=RETRY_PRESETS,
        difference=difference(visit, view),
    )


def form_values(view: JobView) -> dict[str, str]:
    """The fields of the form as the job has them now."""
    spec = job_of(view).spec
    return {
        "schedule": view.schedule or "",
        "timezone": spec.tz,
        "schedule_enabled": "1" if spec.enabled else "",
        "queue": spec.queue,
        "max_retries": str(spec.max_attempts - 1),
        "retry": _retry_text(spec.retry),
        "timeout": "" if spec.timeout is None else duration_text(spec.timeout),
        "overlap": spec.overlap,
        "params": pretty_json(shown_params(view)),
    }


def _given(before: Mapping[str, str], form: Form) -> dict[str, str]:
    """The fields of the form as they were sent. The form of an undo sends only some."""
    sent = dict(form)
    whole = "partial" not in sent
    texts = {name: sent.get(name, "" if whole else before[name]) for name in TEXTS}
    if not whole and "schedule_enabled" not in sent:
        return texts | {"schedule_enabled": before["schedule_enabled"]}
    return texts | {"schedule_enabled": "1" if sent.get("schedule_enabled") else ""}


def _changes(view: JobView, before: Mapping[str, str], form: Form) -> dict[str, Any]:
    """The fields that differ, as the HTTP interface takes them."""
    given = _given(before, form)
    changed = {name: given[name] for name in (*TEXTS, "schedule_enabled") if given[name] != before[name]}
    if "params" in changed and read_json_object("params", changed["params"] or "{}") in (
        view.params,
        shown_params(view),
    ):
        del changed["params"]  # only its spaces differ
    return {name: _value(name, text) for name, text in changed.items()}


def _value(name: str, text: str) -> Any:
    match name:
        case "params":
            return read_json_object(name, text or "{}")
        case "schedule_enabled":
            return bool(text)
        case "max_retries":
            return whole_number(name, text)
        case "retry" if text.startswith("{"):
            return read_json_object(name, text)
        case _:
            return text or None


def _retry_text(retry: Retry) -> str:
    """The name of a preset, or the waits as JSON."""
    for preset in RETRY_PRESETS:
        if retry == Retry(preset):
            return preset
    if retry.delays:
        return json.dumps({"delays": list(retry.delays)} | ({"jitter": retry.jitter} if retry.jitter else {}))
    return json.dumps({name: value for name, value in msgspec.structs.asdict(retry).items() if value})


# --- what a schedule does ---------------------------------------------------------------------------------------


async def _preview(visit: Visit, view: JobView, schedule: str, timezone: str) -> SchedulePreview:
    before = form_values(view)
    given = {"schedule": schedule, "timezone": timezone}
    changes = {name: text or None for name, text in given.items() if text != before[name]}
    try:
        with named_as_given():
            edited = await visit.steering.preview_update(view.name, options_of(changes)) if changes else view
            return await _shown(visit, edited)
    except InvalidValue as error:
        return SchedulePreview(error=str(error))


async def _shown(visit: Visit, view: JobView) -> SchedulePreview:
    job = job_of(view)
    return SchedulePreview(
        words=view.description_of_schedule,
        tz=view.tz,
        fires=await asyncio.to_thread(next_runs, job, FIRES, calendars_of(view)),
        notes=clock_notes(job, visit.now),
    )


# --- what differs from the code ---------------------------------------------------------------------------------


def difference(visit: Visit, view: JobView) -> list[Difference]:
    """The fields that operators changed: what code says, and what is in force. Secrets are masked for everybody, and
    addresses of pings for those who may not change the job."""
    job, in_force = job_of(view), view.overrides
    spec = effective_spec(job.declared, "{}")
    declared = {name: msgspec.to_builtins(getattr(spec, name, None)) for name in in_force}
    declared, in_force = mask_fields_pair(declared, in_force, view.secret)
    if not covers(visit.principal, view):
        declared, in_force = masked(declared), masked(in_force)
    return [Difference(name, _text(name, declared[name]), _text(name, in_force[name])) for name in in_force]


def _text(name: str, value: Any) -> str:
    if value is None:
        return "nothing"
    if name == "trigger":
        trigger = decode_trigger(value)
        return f"{trigger.expression()} ({trigger.describe()})"
    text, more = cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MOST_SHOWN)
    return f"{text} …" if more else text
