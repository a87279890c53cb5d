"""`/api/v1/jobs`: make, list, read, change and remove jobs; their executions, numbers, and why one is not running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.declaring.job_specs import name_in_requests, options_of
from ...core.filters.jobs import job_filter
from ...core.render.entities import CreatedJobJson, JobJson, JobStatsJson, WhyJson, job_stats_json, why_json
from ...model.errors import HandlerNotFound, InvalidValue
from ..access import GuardedRoute
from ..errors import respond
from ..models.executions import JobExecutionList, JobExecutionPageJson, job_execution_page
from ..models.jobs import JobCreate, JobFields, JobList, JobRemoval, JobUpdate, OpenJobCreate, OpenJobUpdate
from ..models.lists import JobPageJson, check_paging, page
from ..request import Changing, ListResponse, Posting, Viewing, etag, items_in_turns, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"], route_class=GuardedRoute)

JobId = Annotated[str, Path(description="The job's name.", max_length=100, examples=["crawl-news"])]

_PAGING = {"q", "sort", "limit", "offset", "cursor", "system"}
_CREATED = answers({201: (CreatedJobJson, "The job, and the execution of one that runs at once.")}, 409, 422)


@router.get(
    "",
    operation_id="list_jobs",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (JobPageJson, "One page of jobs.")}),
)
async def list_jobs(call: Viewing, wanted: Annotated[JobList, Query()]) -> Response:
    """Jobs, sorted by name or by another field; filters combine. Continue with `next_cursor` or `offset`."""
    check_paging(wanted.offset, wanted.cursor)
    given = wanted.model_dump(exclude_none=True, exclude=_PAGING)
    if wanted.q is not None:
        given.setdefault("search", wanted.q)
    found = await call.engine.job_lists.page(
        job_filter(given, system=wanted.system),
        sort=wanted.sort,
        limit=wanted.limit,
        offset=wanted.offset,
        after=wanted.cursor,
    )
    shapes = await items_in_turns(found.jobs, call.rendered)
    return ListResponse(page(shapes, found.total, wanted.limit, wanted.offset, found.after))


async def create_job(call: Posting, body: JobCreate) -> Response:
    """Create a job. Without a schedule or an interval, it runs once, immediately."""
    return await _create(call, body.name, body.handler, body, {})


async def create_open_job(call: Posting, body: OpenJobCreate) -> Response:
    """Create a job. Without a schedule or an interval, it runs once, immediately. Unlisted fields are parameters."""
    handler = body.handler or call.application.settings.api_handler
    return await _create(call, body.name, handler or "", body, body.model_extra or {})


async def update_job(call: Changing, id: JobId, body: JobUpdate) -> Response:
    """Change the named fields and leave the rest. A change to a job that code declares survives deploys."""
    return await _update(call, id, body, {})


async def update_open_job(call: Changing, id: JobId, body: OpenJobUpdate) -> Response:
    """Change the named fields and leave the rest; unlisted fields are parameters. A change to a job that code declares
    survives deploys."""
    return await _update(call, id, body, body.model_extra or {})


def add_writing_routes(to: APIRouter, open_to_parameters: bool) -> None:
    """The settings decide: with a default handler, fields that are not listed are parameters."""
    create, update = (create_open_job, update_open_job) if open_to_parameters else (create_job, update_job)
    to.add_api_route(
        "/api/v1/jobs",
        create,
        methods=["POST"],
        operation_id="create_job",
        status_code=201,
        responses=_CREATED,
        tags=["jobs"],
    )
    to.add_api_route(
        "/api/v1/jobs/{id}",
        update,
        methods=["PUT"],
        operation_id="update_job",
        responses=answers({200: (JobJson, "The job as it is now.")}, 404, 412),
        tags=["jobs"],
    )


@contextmanager
def named_as_given() -> Iterator[None]:
    """Core knows some fields by other names; who asked should read those that they wrote."""
    try:
        yield
    except InvalidValue as error:
        word = error.field.partition(" ")[0]  # such as "window begin", or "hours of job 'crawl'"
        given = word if word in ("window", "hours") else name_in_requests(error.field)
        raise error.reworded(field=given) from None


async def _create(call: Posting, name: str | None, handler: str, body: JobFields, extra: dict[str, Any]) -> Response:
    fields = given(body)
    if extra:
        fields["params"] = {**extra, **fields.get("params", {})}

    async def work(execution_id: str | None) -> Answer:
        try:
            with named_as_given():
                view, first = await call.engine.creation.create(
                    name, handler, options_of(fields), by=call.by, execution_id=execution_id, check=call.may_steer
                )
        except HandlerNotFound as error:
            raise InvalidValue("handler", handler, "a handler that is registered", str(error)) from None
        rendered = {**call.rendered(view), "execution_id": None if first is None else first.id}
        return json(rendered, 201, {**etag(view), "Location": f"{call.request.url.path}/{view.name}"})

    return await call.once(work)


async def _update(call: Changing, id: str, body: JobUpdate, params: dict[str, Any]) -> Response:
    fields = given(body)
    if isinstance(fields.get("params"), dict):  # these take the place of all others
        fields["params"], params = {**params, **fields["params"]}, {}
    with named_as_given():
        view = await call.steering.update_job(id, options_of(fields), params=params, by=call.by, seen=call.seen)
    return respond(json(call.rendered(view), headers=etag(view)))


def given(body: JobFields) -> dict[str, Any]:
    """What was said; of a new job, null is the same as nothing."""
    fields = body.model_dump(exclude_unset=True, include=set(JobFields.model_fields))
    if isinstance(body, JobUpdate):
        return fields
    return {name: value for name, value in fields.items() if value is not None}


@router.get(
    "/{id}", operation_id="get_job", openapi_extra=DEFAULT_TOOL, responses=answers({200: (JobJson, "The job.")}, 404)
)
async def get_job(call: Viewing, id: JobId) -> Response:
    """A job: schedule, rules, state, next and last run, parameters, statistics, and the overrides of operators."""
    view = await call.engine.queries.shown(id)
    return respond(json(call.rendered(view), headers=etag(view)))


@router.delete(
    "/{id}", operation_id="delete_job", status_code=204, responses=answers({204: (None, "It is gone.")}, 404, 409, 412)
)
async def delete_job(call: Changing, id: JobId, wanted: Annotated[JobRemoval, Query()]) -> Response:
    """Remove a job. Its history stays unless purged. This is refused while executions of it wait or run, or while
    other jobs come after it, unless forced."""
    await call.steering.remove_job(id, by=call.by, force=wanted.force, purge=wanted.purge, seen=call.seen)
    return respond(Answer(204))


@router.get(
    "/{id}/executions",
    operation_id="list_job_executions",
    responses=answers({200: (JobExecutionPageJson, "One page of executions.")}, 404),
)
async def list_job_executions(call: Viewing, id: JobId, wanted: Annotated[JobExecutionList, Query()]) -> Response:
    """The executions of a job. Without a filter, `total` also counts those pruned since."""
    view = await call.engine.queries.job(id)
    lifetime = view.stats.total + view.stats.skipped + view.live.total
    return ListResponse(await job_execution_page(call.engine.queries, wanted, id, lifetime))


@router.get("/{id}/stats", operation_id="get_job_stats", responses=answers({200: (JobStatsJson, "Its numbers.")}, 404))
async def get_job_stats(call: Viewing, id: JobId) -> Response:
    """Statistics of the job's executions since it was created."""
    return respond(json(job_stats_json(await call.engine.queries.job(id))))


@router.get(
    "/{id}/why",
    operation_id="why_job",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (WhyJson, "Ordered reasons.")}, 404),
)
async def why_job(call: Viewing, id: JobId) -> Response:
    """Why a job is not running, with the main obstacle first."""
    return respond(json(why_json(*await call.engine.overview.why(id))))
