"""`/dashboard/system`: what this installation is, how it is set up, and what `mainspring doctor` finds
in a moment."""

from __future__ import annotations

import asyncio
import platform
from datetime import UTC, datetime

from fastapi import APIRouter
from starlette.responses import Response

from ....config.doctor_facts import setting_facts
from ....config.report import setting_rows
from ....core.doctor.checks import CHECKS
from ....core.doctor.examination import AREAS, examine
from ....core.doctor.facts import Facts
from ....core.doctor.live_facts import live_facts
from ....core.render.entities import worker_json
from ....core.views.records import worker_view
from ....model.time.instants import to_datetime
from ..visit import PageRoute, Viewing

router = APIRouter(prefix="/dashboard/system", route_class=PageRoute, include_in_schema=False)


@router.get("")
async def system_page(visit: Viewing) -> Response:
    engine = visit.engine
    began = datetime.now(UTC)
    (store_now, workers, live), (jobs, queues, week, problems) = await asyncio.gather(
        asyncio.gather(engine.queries.now(), engine.queries.workers(), live_facts(engine)),
        asyncio.gather(
            engine.job_lists.page(limit=1),
            engine.queues.all(),
            engine.activity.series("7d"),
            engine.problems.recent(),
        ),
    )
    settings, own_store = visit.application.settings, visit.application.given_store is not None
    report = examine(CHECKS, Facts(settings=setting_facts(settings, own_store=own_store), live=live))
    skew = (began - to_datetime(store_now)).total_seconds()
    versions = sorted({(worker.version, worker.release, worker.application) for worker in workers})
    return visit.page(
        "system.html",
        attention=len(problems.problems) + problems.left_out,
        report=report,
        areas=AREAS,
        size=live.size,
        jobs_total=jobs.total,
        live=sum(each.ready + each.planned + each.parked + each.running for each in queues),
        ended=week.totals.ended,
        workers=[worker_json(worker_view(each)) for each in workers],
        versions=versions,
        python=platform.python_version(),
        machine=platform.platform(terse=True),
        settings=sorted(setting_rows(settings), key=lambda row: (not row.given, row.name)),
        store_now=to_datetime(store_now),
        skew=skew,
    )
