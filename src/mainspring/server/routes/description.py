"""`/openapi.json` and `/api/v1/me`: what can be asked here, and as whom.

The document names the handlers of the application and what they take, which is nothing for strangers.
"""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from ...core.render.entities import JsonForm
from ...model.values.access import Role
from ..access import GuardedRoute, needs
from ..access.principals import Kind
from ..errors import respond
from ..openapi import Described
from ..request import Viewing, json
from ..responses import answers

router = APIRouter(dependencies=[Depends(needs(Role.VIEWER))], route_class=GuardedRoute)


class PrincipalJson(JsonForm):
    actor: str
    role: Role
    kind: Kind


@router.get("/openapi.json", include_in_schema=False)
async def get_description(request: Request) -> Response:
    described: Described = request.app.state.described
    prefix = request.scope.get("root_path", "").rstrip("/")  # where it is mounted into another application
    return Response(await described.text(prefix), media_type="application/json")


@router.get(
    "/api/v1/me",
    operation_id="get_me",
    tags=["tokens"],
    responses=answers({200: (PrincipalJson, "The caller's name and role.")}),
)
async def get_me(call: Viewing) -> Response:
    """The name that audit records show for you, your role, and how you logged in: with a token, a JWT, or as a user of
    this machine."""
    who = call.principal
    return respond(json({"actor": who.actor, "role": who.role, "kind": who.kind}))
