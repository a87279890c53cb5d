"""`/api/v1/audit`: who changed what, and when."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...core.shapes import audit_shape
from .. import outputs
from ..call import Viewing, json
from ..docs import answers
from ..errors import respond
from ..models import AuditList

router = APIRouter(prefix="/api/v1/audit", tags=["audit"])

SEARCHED = 1_000
"""The newest records of a target, or of all, among which the other filters look."""


@router.get("", operation_id="list_audit", responses=answers({200: (outputs.Audits, "Records, newest first.")}))
async def list_audit(call: Viewing, wanted: Annotated[AuditList, Query()]) -> Response:
    """Changes, newest first. The filters beside `target` look among the newest 1,000 of the target, or of all."""
    narrowed = [(name, value) for name in ("actor", "action", "request_id") if (value := getattr(wanted, name))]
    most = SEARCHED if narrowed else wanted.offset + wanted.limit
    found = await call.engine.queries.audits(wanted.target, most)
    matching = [each for each in found if all(getattr(each, name) == value for name, value in narrowed)]
    items = [audit_shape(each) for each in matching[wanted.offset : wanted.offset + wanted.limit]]
    return respond(json({"items": items, "limit": wanted.limit, "offset": wanted.offset}))
