"""`/api/v1/templates`: named sets of a handler and fields of a job, and the jobs made from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.declaring.job_specs import options_of, taken_away
from ...core.render.entities import CreatedJobJson, TemplateJson, template_json
from ...model.errors import HandlerNotFound, InvalidValue
from ..access import GuardedRoute
from ..errors import respond
from ..models.jobs import JobFields
from ..models.lists import listed
from ..models.templates import TemplateCreate, TemplateJob, TemplateList, TemplatesJson, TemplateUpdate
from ..request import Call, ListResponse, Operating, Posting, Viewing, encoded_item, etag, json
from ..responses import answers
from .jobs import given, named_as_given

router = APIRouter(prefix="/api/v1/templates", tags=["templates"], route_class=GuardedRoute)

TemplateName = Annotated[str, Path(description="The template's name.", max_length=100, examples=["nightly-crawl"])]

_ONE: dict[int, tuple[Any, str]] = {200: (TemplateJson, "The template as it is now.")}


def _changes(body: TemplateUpdate) -> dict[str, Any]:
    """Null removes a field from the template, unless another given field sets the same option."""
    named = body.model_fields_set & set(JobFields.model_fields)
    nulls = taken_away(name for name in named if getattr(body, name) is None)
    said = options_of(given(body))
    if said.keys() & {"interval_minutes", "trigger"}:
        nulls.pop("trigger", None)
    return {**nulls, **said}


@contextmanager
def _named_as_given() -> Iterator[None]:
    """An unknown handler is an invalid value here (422), not a missing resource (404)."""
    try:
        with named_as_given():
            yield
    except HandlerNotFound as error:
        raise InvalidValue("handler", error.name, "a handler that is registered", str(error)) from None


async def _may_change(call: Call, name: str, handler: str | None = None) -> None:
    """Refuse a template whose handler, or the one that it shall have, the caller may not steer."""
    for each in ((await call.engine.templates.get(name)).handler, handler):
        if each is not None:
            await call.may_steer_handler(each)


@router.get("", operation_id="list_templates", responses=answers({200: (TemplatesJson, "Templates.")}))
async def list_templates(call: Viewing, wanted: Annotated[TemplateList, Query()]) -> Response:
    items = [encoded_item(template_json(each, unmasked=call.operates)) async for each in call.engine.templates.each()]
    return ListResponse(listed(items, wanted))


@router.post(
    "",
    operation_id="create_template",
    status_code=201,
    responses=answers({201: (TemplateJson, "The new template.")}, 409, 422),
)
async def create_template(call: Posting, body: TemplateCreate) -> Response:
    """Store a handler and fields of a job under a name. They are checked like those of a job, but parameters may be
    missing."""

    async def work(_: str | None) -> Answer:
        await call.may_steer_handler(body.handler)
        with _named_as_given():
            made = await call.engine.templates.create(body.name, body.handler, options_of(given(body)), by=call.by)
        return json(template_json(made, unmasked=True), 201, {"Location": f"{call.request.url.path}/{made.name}"})

    return await call.once(work)


@router.get("/{name}", operation_id="get_template", responses=answers(_ONE, 404))
async def get_template(call: Viewing, name: TemplateName) -> Response:
    return respond(json(template_json(await call.engine.templates.get(name), unmasked=call.operates)))


@router.put("/{name}", operation_id="update_template", responses=answers(_ONE, 404, 409, 422))
async def update_template(call: Posting, name: TemplateName, body: TemplateUpdate) -> Response:
    """Change the given fields of a template and leave the rest. Jobs that were created from it stay as they are."""

    async def work(_: str | None) -> Answer:
        await _may_change(call, name, body.handler)
        with _named_as_given():
            made = await call.engine.templates.update(name, _changes(body), handler=body.handler, by=call.by)
        return json(template_json(made, unmasked=True))

    return await call.once(work)


@router.delete(
    "/{name}", operation_id="delete_template", status_code=204, responses=answers({204: (None, "It is gone.")}, 404)
)
async def delete_template(call: Operating, name: TemplateName) -> Response:
    """Remove a template. Jobs that were created from it stay."""
    await _may_change(call, name)
    await call.engine.templates.remove(name, by=call.by)
    return respond(Answer(204))


@router.post(
    "/{name}/jobs",
    operation_id="create_job_from_template",
    status_code=201,
    responses=answers({201: (CreatedJobJson, "The job, and the execution of one that runs at once.")}, 404, 409, 422),
)
async def create_job_from_template(call: Posting, name: TemplateName, body: TemplateJob | None = None) -> Response:
    """Create a job from a template; the given fields take precedence over those of the template."""
    wanted = TemplateJob() if body is None else body

    async def work(execution_id: str | None) -> Answer:
        with _named_as_given():
            view, first = await call.engine.templates.apply(
                name,
                wanted.name,
                options_of(given(wanted)),
                by=call.by,
                execution_id=execution_id,
                check=call.may_steer,
            )
        rendered = {**call.rendered(view), "execution_id": None if first is None else first.id}
        return json(rendered, 201, {**etag(view), "Location": f"/api/v1/jobs/{view.name}"})

    return await call.once(work)
