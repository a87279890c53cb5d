"""What `benchmarks.triage_fill` leaves out and pages of the dashboard show: windows, tenants, a long log, bulk actions,
backfills, webhooks, locks, workers that are alive, and a week of activity. Mostly made by running real jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from benchmarks.triage_fill import HANDLERS, WORKERS, Size, handler_of, job_of
from mainspring import Execution, Mainspring
from mainspring.app.adapters import SystemClock, make_store
from mainspring.config.load import load
from mainspring.core.engine.activity import KIND
from mainspring.core.rules.activity import BUCKETS, LATENESS, Tally
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo

PATIENCE = 300.0
LEASE = 86_400.0
LOCKS = 60
DEAD_END = "http://127.0.0.1:9/"
"""Nobody listens on this port, so deliveries fail."""


async def furnish(app: Mainspring, size: Size) -> None:
    """Add the records and run the jobs of `benchmarks.dashboard_jobs`."""
    url = app.settings.database_url
    store = make_store(load({"database_url": url}), SystemClock())
    await store.open()
    try:
        now = await store.now()
        writes = [
            EntryWrite(entry=Entry(kind=KIND, scope=each.scope, key=each.key_of(now - n * each.step), body=_tally(n)))
            for each in BUCKETS.values()
            for n in range(each.count)
        ]
        await store.write_entries(writes)
        declared = tuple(job_of(number) for number in range(size.jobs))
        for number in range(WORKERS):
            info = WorkerInfo(
                id=f"box-{number:02}.shop.example-{number:08x}",
                host=f"box-{number:02}.shop.example",
                pid=100 + number,
                version="0.2.0",
                lease=LEASE,
                roles=("worker",),
                handlers=tuple(handler_of(number) for number in range(HANDLERS)),
                declares=declared,
                concurrency=20,
            )
            store.heartbeat(HeartbeatRequest(worker=info, leases=(), lease=LEASE))
    finally:
        await store.close()
    async with app:
        await _work(app, charges=min(200, size.jobs // 10), days=min(400, size.jobs // 4))


def _tally(number: int) -> str:
    lateness = [40, 9, 3, 2, 1, *[0] * (len(LATENESS) - 4)]
    return msgspec.json.encode(Tally(completed=900 + number, failed=number % 37, lateness=lateness)).decode()


async def _work(app: Mainspring, charges: int, days: int) -> None:
    await app.webhooks.create(DEAD_END, id="alerts", events=["execution.failed"], jobs=["talk"])
    runs = [
        await app.trigger("customers", by="ann"),
        await app.enqueue("talk", {"order_id": 4711, "note": "much to say " * 800}),
        *[await app.enqueue("charge", {"order_id": number}) for number in range(charges)],
    ]
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    backfills = [
        await app.backfill("windows", today - timedelta(days=first), today - timedelta(days=last), concurrency=20)
        for first, last in ((days, days // 2), (days // 2 - 10, 2))
    ]
    for number in range(LOCKS):
        await app.try_lock(f"shelf-{number:03}", ttl="24h")
    for each in runs:
        assert isinstance(each, Execution)
        await app.wait(each, timeout=PATIENCE)
    ids = [each.id for each in runs[2:] if isinstance(each, Execution)]
    bulk = await app.bulk.start("retry", "executions", ids, by="ann", note="the bank is back")
    await app.bulk.wait(bulk.id, timeout=PATIENCE)
    for backfill in backfills:
        await app.backfills.wait(backfill.id, timeout=PATIENCE)
