"""`/dashboard/system`: what this installation is, how it is set up, and what a doctor would say of it."""

from __future__ import annotations

import asyncio
import platform
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from ....config.report import setting_rows
from ....core.render.entities import worker_json
from ....core.views.records import worker_view
from ....model.time.instants import to_datetime
from ..visit import PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/system", route_class=PageRoute, include_in_schema=False)

SKEW = 2.0
"""Seconds between this machine's clock and the store's that are worth a warning."""


class Check(msgspec.Struct, frozen=True):
    """One thing a doctor looks at: whether it is well, and what to do if it is not."""

    name: str
    well: bool
    words: str
    remedy: str = ""


@router.get("")
async def system_page(visit: Viewing) -> Response:
    engine = visit.engine
    began = datetime.now(UTC)
    (store_now, size, workers, silent), (conflicts, jobs, queues, week, problems) = await asyncio.gather(
        asyncio.gather(
            engine.queries.now(),
            engine.queries.storage_size(),
            engine.queries.workers(),
            engine.queries.silent_workers(),
        ),
        asyncio.gather(
            engine.processes.conflicts(),
            engine.job_lists.page(limit=1),
            engine.queues.all(),
            engine.activity.series("7d"),
            engine.problems.recent(),
        ),
    )
    skew = (began - to_datetime(store_now)).total_seconds()
    versions = sorted({(worker.version, worker.release, worker.application) for worker in workers})
    return visit.page(
        "system.html",
        attention=len(problems.problems) + problems.left_out,
        checks=[*_checks(visit, skew, workers, silent), *_conflict_checks(conflicts)],
        size=size,
        jobs_total=jobs.total,
        live=sum(each.ready + each.planned + each.parked + each.running for each in queues),
        ended=week.totals.ended,
        workers=[worker_json(worker_view(each)) for each in workers],
        versions=versions,
        python=platform.python_version(),
        machine=platform.platform(terse=True),
        settings=sorted(setting_rows(visit.application.settings), key=lambda row: (not row.given, row.name)),
        store_now=to_datetime(store_now),
        skew=skew,
    )


def _checks(visit: Visit, skew: float, workers: list[Any], silent: list[Any]) -> list[Check]:
    schedulers = sum("scheduler" in worker.roles for worker in workers)
    working = sum("worker" in worker.roles for worker in workers)
    heard = visit.engine.channels()
    deaf = sorted(name for name, works in heard.items() if not works)
    security = visit.application.settings.security
    return [
        Check(
            "Schedulers",
            schedulers > 0,
            f"{schedulers} running" if schedulers else "none is running, so no schedule ticks",
            "Start a process with the role scheduler: mainspring run MODULE:APP",
        ),
        Check(
            "Workers",
            working > 0,
            f"{working} running" if working else "none is running, so nothing that is due begins",
            "Start a process with the role worker: mainspring worker MODULE:APP",
        ),
        Check(
            "Silent processes",
            not silent,
            f"{len(silent)} neither stopped nor sent a heartbeat" if silent else "none",
            "Their executions are taken over when their leases end; look at these machines",
        ),
        Check(
            "Clock",
            abs(skew) < SKEW,
            f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} the database" if abs(skew) >= 0.1 else "agrees",
            "Let NTP set the clocks of both machines",
        ),
        Check(
            "Wake-ups",
            not deaf,
            f"down: {', '.join(deaf)}" if deaf else "work" if heard else "not used: work is found by polling",
            "Work is found by polling meanwhile; check the connection, or set listen_url past a pooler",
        ),
        Check(
            "Authentication",
            True,
            "on" if security.authenticates else "off: only this machine is served, as administrator",
        ),
    ]


def _conflict_checks(conflicts: list[Any]) -> list[Check]:
    words = "; ".join(f"{each.job}: {', '.join(one.application for one in each.declarers)}" for each in conflicts[:5])
    return [
        Check(
            "Jobs declared twice",
            not conflicts,
            words or "none",
            "Give each application a schema, a prefix or a file of its own",
        )
    ]
