"""`/dashboard/executions/{id}`: one execution in full, what can be done to it, and its live stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response, StreamingResponse

from .....core.commands.steering import RETRYABLE
from .....core.commands.tenant_retries import TenantPage
from .....core.errors.commands import ErrorGroupView
from .....core.filters.executions import last_worker
from .....core.queries.part_of_id import ending_with
from .....core.queries.queries import EXECUTION_ID, LEVELS
from .....core.render.entities import execution_json
from .....core.render.masking import shown_params
from .....core.rules.edited_params import ParamsEdit, difference
from .....core.rules.new_execution import secret_of_retry
from .....core.rules.secret_params import hide, keep
from .....core.rules.stopping import stop_text
from .....core.views.execution import Attempt, Execution, executions_of, row_of
from .....core.views.job import JobView, job_of
from .....core.views.records import LogEntry, audit_record, log_entries
from .....model.errors import CommandRefused, ExecutionNotFound, InvalidValue, MainspringError
from .....model.execution import ExecutionRow
from .....model.time.instants import to_micros
from .....model.values.ids import ENDING
from ....access import Role, guard_of, needs
from ....errors import problem_of
from ....models.executions import Level
from ....request import in_turns
from ....stream import Admission, Streams
from ... import format
from ...copies import copies
from ...drawing import charts
from ...drawing.life import LifePart, end_words, life, sums
from ...parameter_fields import read_json_object
from ...visit import Operating, PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/executions/{id}", route_class=PageRoute, include_in_schema=False)

ExecutionId = Annotated[str, Path(max_length=100)]

SHORT_ID = re.compile(f"[0-9a-f]{{{ENDING}}}")
"""The end of an id, in the addresses that `mainspring dev` prints; found among the newest executions."""
ENDING_PAGES = 2
TENANTS = 200
RELATED = 20
ATTEMPTS = 30
EDITED = 20
LEGEND = 8
"""How many parts of its life have words below the bar; the table of its numbers has all of them."""
MOST_LINES = 200
MOST_LOG = 32_000
"""Bytes of the log that a page shows; all lines are a page of plain text."""
MOST_SHOWN = 9_000
"""Bytes of a value that a page shows; the whole is in the raw JSON."""


async def found_execution(visit: Visit, id: str) -> Execution:
    """Texts that cannot be an id are not looked up."""
    if not EXECUTION_ID.fullmatch(id):
        raise ExecutionNotFound(id)
    return Execution(await visit.engine.queries.get(id))


@router.get("")
async def execution_page(
    visit: Viewing,
    id: ExecutionId,
    level: Level | None = None,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> Response:
    if SHORT_ID.fullmatch(id) and len(ended := await ending_with(visit.engine.queries, id, ENDING_PAGES)) == 1:
        return RedirectResponse(visit.url("executions", ended[0].id), 303)
    execution = await found_execution(visit, id)
    row, engine = row_of(execution), visit.engine
    (job, log, reasons, audits), (related, release, group, tenants) = await asyncio.gather(
        asyncio.gather(
            _job(visit, execution.job),
            engine.queries.logs(id, level=level),
            engine.overview.why_waiting(row),
            engine.queries.audits(f"execution:{id}", 20),
        ),
        asyncio.gather(
            _related(visit, row), _release(visit, row), _group(visit, execution), _tenants(visit, execution)
        ),
    )
    lines, left_out = newest_lines(log_entries(log))
    shown = _shown_attempt(execution.attempts, attempt)
    parts = life(row, to_micros(visit.now))
    rendered = execution_json(execution)
    return visit.page(
        "executions/one.html",
        execution=execution,
        job=job,
        may_act=visit.operates if job is None else visit.may_act(job),
        may_retry=job is not None and execution.state in RETRYABLE,
        may_cancel=not execution.state.final,
        end_words=end_words,
        stop=stop_text(None if job is None else job_of(job).spec.isolation),
        overruns=row.overruns(to_micros(visit.now)),
        from_backfill=row.from_backfill,
        release=release,
        parts=parts,
        sums=sums(parts),
        bar_picture=_life_bar(visit, parts),
        reasons=reasons,
        group=group,
        shown=shown,
        traceback_text=_cut((shown and shown.traceback) or ""),
        attempts=execution.attempts[: -ATTEMPTS - 1 : -1],
        edited=dict(islice(execution.edited.items(), EDITED)),
        tenants=tenants,
        tenant_colours=charts.STATE_COLOURS,
        worker=last_worker(row),
        audits=await in_turns(audits, audit_record),
        related=related,
        lines=lines,
        left_out=left_out,
        last_line=log[-1][0] if log else 0,
        level=level,
        levels=LEVELS,
        values={name: _cut(format.pretty_json(rendered[name])) for name in ("params", "result", "metadata")},
        raw=_cut(format.pretty_json(rendered)),
        copies=copies(execution, visit.address),
    )


@router.get("/log")
async def execution_log(visit: Viewing, id: ExecutionId, level: Level | None = None) -> Response:
    """All lines that are kept, as plain text."""
    await found_execution(visit, id)
    lines = log_entries(await visit.engine.queries.logs(id, level=level))
    text = "".join(
        f"{format.exact(each.at, visit.zone)} {each.level} {each.logger}: {each.message}\n" for _, each in lines
    )
    return Response(text.encode("utf-8", "replace"), media_type="text/plain; charset=utf-8")


@router.get("/raw")
async def raw_execution(visit: Viewing, id: ExecutionId) -> Response:
    """The JSON that the API answers with."""
    rendered = execution_json(await found_execution(visit, id))
    return Response(format.pretty_json(rendered).encode("utf-8", "replace"), media_type="application/json")


@router.get("/stream")
async def execution_stream(
    visit: Viewing,
    id: ExecutionId,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=32)] = None,
) -> Response:
    """The stream of the API for open pages: `execution`, `log` and `end`."""
    execution = await found_execution(visit, id)
    request = visit.request
    streams: Streams = request.app.state.streams
    who = visit.stream_holder()
    if last_event_id and last_event_id.isascii() and last_event_id.isdigit():
        after = max(after, min(int(last_event_id), 2**53))
    admission = Admission(lambda: guard_of(request).still_admits(request, Role.VIEWER, cookies=True))
    events: AsyncIterator[bytes] = streams.follow(visit.engine.queries, execution, after, admission, who)
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


# --- what the page of one execution shows -----------------------------------------------------------------------


async def _job(visit: Visit, name: str) -> JobView | None:
    """None for a job that was removed; its history is kept."""
    return next(iter(await visit.engine.queries.named([name])), None)


async def _related(visit: Visit, row: ExecutionRow) -> list[Execution]:
    """Others with the same trace: what caused it and what it has caused. Its parent has a line of
    its own, and tenants are shown by theirs."""
    if not row.trace_id:
        return []
    found = await visit.engine.queries.executions(trace_id=row.trace_id, limit=RELATED, system=True)
    shown = (row.id, row.parent_id)
    others = [each for each in found if each.id not in shown and (each.tenant is None or each.parent_id is None)]
    return executions_of(others)


async def _release(visit: Visit, row: ExecutionRow) -> str:
    worker = last_worker(row)
    return "" if worker is None else await visit.engine.queries.release_of(worker)


async def _group(visit: Visit, execution: Execution) -> ErrorGroupView | None:
    if execution.error_group is None:
        return None
    with suppress(MainspringError):  # it is counted some seconds after the failure
        return await visit.engine.errors.get(execution.error_group)
    return None


async def _tenants(visit: Visit, execution: Execution) -> TenantPage | None:
    return await visit.engine.tenants.page(execution.id, limit=TENANTS) if execution.fans_out else None


def _shown_attempt(attempts: Sequence[Attempt], number: int | None) -> Attempt | None:
    """The attempt whose error is shown: the one that is asked for, or the last that has one."""
    wanted = [each for each in attempts if each.error and number in (None, each.number)]
    return wanted[-1] if wanted else None


def newest_lines(lines: list[tuple[int, LogEntry]]) -> tuple[list[tuple[int, LogEntry]], int]:
    """The newest lines that a page has room for, oldest first, and how many are left out."""
    room, first = MOST_LOG, len(lines)
    while first > max(0, len(lines) - MOST_LINES) and (size := format.page_size(lines[first - 1][1].message)) <= room:
        first, room = first - 1, room - size
    return lines[first:], first


def _cut(text: str) -> tuple[str, bool]:
    return format.cut(text, MOST_SHOWN)


def _life_bar(visit: Visit, parts: Sequence[LifePart]) -> Markup | None:
    if not parts:
        return None
    label = "Its life: " + ", ".join(f"{part.name} {format.span(part.seconds)}" for part in parts[:12])
    picture = charts.bar_of_parts(
        [
            charts.Part(part.name, part.colour, part.seconds, f"{part.name}, {format.span(part.seconds)}")
            for part in parts
        ],
        label,
    )
    legend = Markup("").join(
        Markup('<span><i class="key {}" aria-hidden="true"></i>{} {}</span> ').format(
            part.colour, part.name, format.span(part.seconds)
        )
        for part in parts[:LEGEND]
    )
    words = Markup('<p class="legend hint">{}</p>').format(legend)
    rows = [[part.name, format.exact(part.begin_at, visit.zone), format.span(part.seconds)] for part in parts]
    return charts.figure(picture + words, "its life", ["part", "from", "for"], rows)


# --- what can be done to it -------------------------------------------------------------------------------------


@router.post("/cancel")
async def cancel_execution(sent: Operating, id: ExecutionId) -> Response:
    visit = sent.visit
    await found_execution(visit, id)
    done = await visit.steering.cancel_execution(id, by=visit.by, reason=sent.form.get("reason"))
    text = (
        f"Execution of {done.job} was cancelled." if done.state.final else f"Execution of {done.job} was asked to stop."
    )
    return visit.done(text, visit.url("executions", id))


@router.post("/retry")
async def retry_execution(sent: Operating, id: ExecutionId) -> Response:
    visit = sent.visit
    await visit.steerable((await found_execution(visit, id)).job)
    return _retried(visit, await visit.steering.retry_execution(id, by=visit.by))


@router.post("/retry-failed")
async def retry_failed_tenants(sent: Operating, id: ExecutionId) -> Response:
    visit = sent.visit
    await visit.steerable((await found_execution(visit, id)).job)
    made = await visit.engine.tenants.retry_failed(id, by=visit.by)
    return _retried(visit, made, " for the tenants that did not complete")


def _retried(visit: Visit, made: ExecutionRow, words: str = "") -> Response:
    """Go to the new execution; undoing a retry is cancelling it."""
    undo = visit.url("executions", made.id, "cancel")
    to = visit.url("executions", made.id)
    return visit.done(
        f"{made.job} runs again{words}, as this execution.", to, undo=undo, fields={"reason": "retried by mistake"}
    )


@router.get("/edit", dependencies=[Depends(needs(Role.OPERATOR, cookies=True))])
async def edit_page(visit: Viewing, id: ExecutionId) -> Response:
    """Edit and retry: the parameters as JSON."""
    execution = await found_execution(visit, id)
    job = await visit.steerable(execution.job)
    _check_retryable(execution)
    return _edit_page(visit, execution, job, format.pretty_json(shown_params(execution)))


@router.post("/edit")
async def edit_and_retry(sent: Operating, id: ExecutionId) -> Response:
    """Retry with other parameters, or show what would differ. What was typed stays if it is refused."""
    visit, typed = sent.visit, sent.form.get("params") or "{}"
    execution = await found_execution(visit, id)
    job = await visit.steerable(execution.job)
    changed: dict[str, dict[str, Any]] = {}
    try:
        _check_retryable(execution)
        secret = secret_of_retry(job_of(job), row_of(execution))
        given = keep(_typed_params(typed, secret), execution.params, secret)
        changed = difference(execution.params, given, secret)
        edit = ParamsEdit(
            {name: given[name] for name, sides in changed.items() if "after" in sides},
            tuple(name for name, sides in changed.items() if "after" not in sides),
        )
        if sent.form.get("step") == "retry":
            made = await visit.steering.retry_execution(id, by=visit.by, edit=edit)
            return _retried(visit, made, " with other parameters" if edit else "")
        visit.engine.manual_runs.retry_of(job_of(job), row_of(execution), visit.by, to_micros(visit.now), edit=edit)
    except MainspringError as error:
        problem = problem_of(error)
        if problem.status >= 500:
            raise
        return _edit_page(visit, execution, job, typed, changed, problem.message, problem.status)
    return _edit_page(visit, execution, job, typed, changed, previewed=True)


def _typed_params(typed: str, secret: Sequence[str]) -> dict[str, Any]:
    try:
        return read_json_object("params", typed)
    except InvalidValue as error:
        raise hide(error, secret) from None


def _edit_page(
    visit: Visit,
    execution: Execution,
    job: JobView,
    typed: str,
    changed: dict[str, dict[str, Any]] | None = None,
    error: str | None = None,
    status: int = 200,
    *,
    previewed: bool = False,
) -> Response:
    signature = visit.engine.manual_runs.signature_of(job_of(job))
    return visit.page(
        "executions/edit.html",
        status,
        execution=execution,
        typed=typed,
        changed=changed or {},
        error=error,
        previewed=previewed,
        signature=None if signature is None else str(signature),
        secret=secret_of_retry(job_of(job), row_of(execution)),
    )


def _check_retryable(execution: Execution) -> None:
    if execution.state not in RETRYABLE:
        raise CommandRefused("retry", execution.state, sorted(RETRYABLE), f"execution {execution.id}")
