"""`/api/v1/missed-runs`: scheduled runs that nobody made happen, as watchers found them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...core.monitoring.missed_runs import missed_filter
from ...core.render.entities import missed_json
from ..errors import respond
from ..models.audit import MissedRunList, MissedRunPageJson
from ..models.lists import check_paging, check_range
from ..request import Viewing, json
from ..responses import answers

router = APIRouter(prefix="/api/v1/missed-runs", tags=["missed runs"])


@router.get(
    "",
    operation_id="list_missed_runs",
    responses=answers({200: (MissedRunPageJson, "Stretches of missed runs, newest first.")}),
)
async def list_missed_runs(call: Viewing, wanted: Annotated[MissedRunList, Query()]) -> Response:
    """What `mainspring watch` has told of within the last 30 days, by the first run that was missed, newest first.
    Filters combine. A page looks at 10,000 entries at most: what is rare may need several, some of them empty. Go on
    with `next_cursor` until there is none."""
    check_paging(wanted.offset, wanted.cursor)
    check_range(wanted.since, wanted.until)
    filters = missed_filter(wanted.job, wanted.reason, wanted.since, wanted.until)
    found = await call.engine.watch.ledger.page(filters, limit=wanted.limit, offset=wanted.offset, after=wanted.cursor)
    paging = {"limit": wanted.limit, "offset": wanted.offset, "next_cursor": found.after}
    return respond(json({"items": [missed_json(each) for each in found.items], **paging}))
