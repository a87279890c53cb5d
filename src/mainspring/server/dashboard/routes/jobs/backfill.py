"""`/dashboard/jobs/{name}/backfill`: run the windows of a range, after a look at which they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from fastapi import APIRouter, Depends
from starlette.responses import Response

from .....core.views.job import job_of
from .....core.views.records import Backfill, backfill_view
from .....model.backfill import Only, Order
from .....model.errors import InvalidValue
from ....access import Role, needs
from ...forms import Form
from ...visit import Operating, PageRoute, Viewing

router = APIRouter(prefix="/dashboard/jobs/{name}/backfill", route_class=PageRoute, include_in_schema=False)

FIRST = 10
"""Windows that a preview names."""
FIELDS = ("begin", "end", "order", "concurrency", "only", "pace", "note", "force")


class BackfillPreview(msgspec.Struct, frozen=True):
    """What a backfill would do; `error` says why it would not."""

    plan: Backfill | None = None
    error: str | None = None


@router.get("", dependencies=[Depends(needs(Role.OPERATOR, cookies=True))])
async def backfill_page(visit: Viewing, name: str) -> Response:
    """The form; once it says something, with the windows that it would run."""
    view = await visit.steerable(name)
    form = Form(visit.request.query_params.multi_items())
    values = {field: form.get(field) or "" for field in FIELDS}
    preview = None
    if any(values.values()):
        try:
            plan = await visit.engine.backfills.start(name, **_options(form), dry_run=True, listed=FIRST, by=visit.by)
            preview = BackfillPreview(backfill_view(plan))
        except InvalidValue as error:
            preview = BackfillPreview(error=str(error))
    return visit.page(
        "jobs/backfill.html",
        job=view,
        tz=job_of(view).spec.tz,
        values=values,
        preview=preview,
        first=FIRST,
        orders=get_args(Order),
        kinds=get_args(Only),
    )


@router.post("")
async def start_backfill(sent: Operating, name: str) -> Response:
    visit = sent.visit
    await visit.steerable(name)
    made = await visit.engine.backfills.start(name, **_options(sent.form), by=visit.by)
    noun = "window" if made.total == 1 else "windows"
    return visit.done(f"A backfill of {made.total:,} {noun} has begun.", visit.url("backfills", made.id))


def _options(form: Form) -> Mapping[str, Any]:
    """Times without an offset are those of the job's zone."""
    concurrency = form.whole("concurrency")
    return {
        "begin": form.get("begin"),
        "end": form.get("end"),
        "order": form.get("order") or "oldest",
        "concurrency": 1 if concurrency is None else concurrency,
        "only": form.get("only") or "holes",
        "pace": form.get("pace"),
        "force": form.checked("force"),
        "note": form.get("note"),
    }
