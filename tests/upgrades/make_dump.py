"""Fill a database with rows of every kind, on the code of the release before, and end as a crash does.

    PYTHONPATH=<src of the release before>:. python -m tests.upgrades.make_dump fill URL MANIFEST
    PYTHONPATH=src:. python -m tests.upgrades.make_dump all    # makes tests/upgrades/dumps

`fill` imports nothing but what users import. `all` takes that release from the history of this repository.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from mainspring import JobContext, Limit, Mainspring, Retry, Skip, Unique, every
from mainspring.webhooks import sign

FOLDER = Path(__file__).parent / "dumps"


def build(url: str, *, crashes: bool = False, **settings: Any) -> Mainspring:
    app = Mainspring(url, heartbeat=0.2, poll_interval=0.05, concurrency=8, release="41", **settings)
    gate = asyncio.Event()

    @app.job("ok", trigger=every(hours=1), window="previous_hour", metadata={"team": "billing"})
    async def ok(ctx: JobContext) -> dict[str, int]:
        ctx.logger.warning("a line of the log")
        return {"rows": 3}

    @app.job("after_ok", after=["ok"])
    async def after_ok(ctx: JobContext) -> None: ...

    @app.job("fails", max_attempts=2, retry=Retry(initial="10ms"))
    async def fails(ctx: JobContext, order_id: int = 1) -> None:
        raise ValueError(f"order {order_id} has no address")

    @app.job("skips")
    async def skips(ctx: JobContext) -> None:
        raise Skip("nothing to do")

    @app.job("some", tenants=["a", "b"], tenant_max_attempts=1)
    async def some(ctx: JobContext) -> None:
        if ctx.tenant == "b":
            raise ValueError("tenant b fails")

    @app.job("paused", trigger=every(days=1))
    async def paused(ctx: JobContext) -> None: ...

    @app.job("plain")
    async def plain(ctx: JobContext, item: int = 0) -> None: ...

    @app.job("hooked")
    async def hooked(ctx: JobContext, payload: dict[str, Any]) -> None: ...

    @app.job("imported")
    async def imported(ctx: JobContext) -> None: ...

    @app.job("filled", trigger=every(hours=1), window="previous_hour")
    async def filled(ctx: JobContext) -> None:
        if crashes:
            await gate.wait()

    @app.job("moved", trigger=every(hours=3 if crashes else 2), window="previous_hour")
    async def moved(ctx: JobContext) -> None: ...

    @app.job("one_at_a_time", limits=[Limit("one", concurrency=1), Limit("pace", rate="100/s")])
    async def one_at_a_time(ctx: JobContext) -> None:
        if crashes:
            await gate.wait()

    @app.job("each", tenants=["a", "b", "c"], tenant_concurrency=2)
    async def each(ctx: JobContext) -> None:
        if crashes:
            await gate.wait()

    return app


async def fill(url: str, manifest: Path) -> None:
    app = build(url, fold_interval=0.2)
    async with app:
        ended = [
            await app.trigger("ok"),
            await app.enqueue("fails", {"order_id": 4711}),
            await app.enqueue("skips"),
            await app.trigger("some"),
            await app.enqueue("plain", {"item": 1}, tenant="acme", priority=3),
        ]
        for execution in ended:
            assert execution is not None
            await app.wait(execution, timeout=30)
        planned = await app.enqueue("plain", start_at=later(hours=1))
        assert planned is not None
        await app.cancel_execution(planned.id, by="ann", reason="not needed")
        await app.pause("paused", by="ann", note="audit")
        await app.update_job("plain", by="bob", queue="slow")
        await app.calendars.set("holidays", ["2026-12-25"], by="ann")
        await app.tokens.create("ci", role="viewer", by="ann")
        await app.webhooks.create("https://example.com/hook", events=["execution.cancelled"], by="ann")
        await app.templates.create("nightly", "plain", by="ann", queue="slow")
        hook = await app.hooks.set("stripe", "hooked", by="ann")
        now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        await app.backfill("ok", now - timedelta(hours=4), now - timedelta(hours=2), by="ann")
        await app.try_lock("import", "3650d")
        await app.enqueue("plain", {"item": 2}, unique=Unique("once", for_="3650d"))
        await requests(app, hook.secret.reveal())
        await asyncio.sleep(1.0)
    rows = manifest.with_suffix(".rows.json")
    rows.write_text('[{"name": "imported", "schedule_time": "30 4 * * *", "enabled": true}]')
    command = [sys.executable, "-m", "mainspring", "import", "cron-rows", str(rows), "--database-url", url]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # nothing else runs
    rows.unlink()
    app = build(url, crashes=True, fold_interval=3600, lease=10)
    await app.start()
    await app.trigger("each")
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    await app.backfill("filled", now - timedelta(hours=4), now - timedelta(hours=2), by="ann")
    for _ in range(3):
        await app.enqueue("one_at_a_time")
    for item in range(3):
        execution = await app.enqueue("plain", {"item": item}, unique=f"order-{item}")
        assert execution is not None
        await app.wait(execution, timeout=30)
    await asyncio.sleep(1.5)
    await app.enqueue("plain", {"item": 10}, start_at=later(seconds=30))
    await app.enqueue("plain", {"item": 11}, queue="other", start_at=later(seconds=30))
    await app.enqueue("plain", {"item": 12}, unique="held", start_at=later(days=365))
    text = json.dumps(await described(app), indent=1)
    manifest.write_text(f"{text}\n")  # noqa: ASYNC240  # the process ends here
    sys.stdout.flush()
    os._exit(0)


async def requests(app: Mainspring, secret: str) -> None:
    """Over HTTP: one that may be repeated, one that a hook signed, and one that may not come in."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app.asgi(), client=("127.0.0.1", 50_000)), base_url="http://127.0.0.1"
    ) as http:
        answer = await http.post("/api/v1/jobs/plain/trigger", headers={"Idempotency-Key": "k-1"})
        assert answer.status_code == 202, answer.text
        body = '{"amount": 12}'
        headers = {"Content-Type": "application/json", **sign(body, secret, id="delivery-1")}
        answer = await http.post("/hooks/stripe", content=body, headers=headers)
        assert answer.status_code == 202, answer.text
        answer = await http.get("/api/v1/jobs", headers={"Authorization": "Bearer wrong"})
        assert answer.status_code == 401, answer.text


def later(**span: int) -> datetime:
    return datetime.now(UTC) + timedelta(**span)


async def described(app: Mainspring) -> dict[str, Any]:
    """What a later release has to find."""
    executions = await app.executions(limit=1000)
    store = (await app._runtime.engine()).store
    entries = await store.copy_out("entries", "", 10_000)
    return {
        "jobs": sorted(job.name for job in await app.jobs() if not job.name.startswith("mainspring.")),
        "ended": {each.id: each.state for each in executions if each.state.final},
        "live": {each.id: each.job for each in executions if not each.state.final},
        "states": dict(Counter(str(each.state) for each in executions)),
        "logs": [line.message for each in executions for _, line in await app.logs(each)],
        "totals": {job.name: job.stats.total for job in await app.jobs() if job.stats.total},
        "audits": sorted({each.action for each in await app.audits(limit=1000)}),
        "entries": dict(Counter(entry.kind for entry in entries)),
        "locks": [lock.name for lock in await store.locks()],
        "workers": len(await store.workers()),
    }


# --- dumps ------------------------------------------------------------------------------------------------------


def dump_sqlite(url: str) -> str:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def dump_mongo(url: str) -> str:
    import pymongo
    from bson import json_util

    with pymongo.MongoClient(url) as client:  # type: ignore[var-annotated]
        database = client.get_default_database()
        found = {
            name: {
                "indexes": [index for index in database[name].list_indexes() if index["name"] != "_id_"],
                "documents": list(database[name].find()),
            }
            for name in sorted(database.list_collection_names())
        }
    return json_util.dumps(found, indent=1) + "\n"


def dump_postgres(url: str) -> str:
    from tests.servers import postgres

    command = postgres()._command("pg_dump", "--inserts", "--no-owner", "--schema=mainspring", url)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    foreign = ("\\", "--", "SET transaction_timeout")  # commands of psql, and what older servers do not know
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() and not line.startswith(foreign))


def make_all() -> None:
    from tempfile import TemporaryDirectory

    from tests.mongo_server import mongo
    from tests.servers import postgres
    from tests.upgrades import release_before

    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        before = release_before.source(Path(folder))
        urls = {
            "sqlite": f"sqlite:///{folder}/jobs.db",
            "postgres": postgres().new_database(),
            "mongo": mongo("replica_set").new_database(),
        }
        for kind, url in urls.items():
            path = os.pathsep.join([str(before), str(release_before.ROOT)])
            manifest = FOLDER / f"{kind}.manifest.json"
            command = [sys.executable, "-m", "tests.upgrades.make_dump", "fill", url, str(manifest)]
            subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, check=True, stderr=subprocess.DEVNULL)
            dump = {"sqlite": dump_sqlite, "postgres": dump_postgres, "mongo": dump_mongo}[kind]
            (FOLDER / f"{kind}.{'json' if kind == 'mongo' else 'sql'}").write_text(
                dump(url).replace(str(release_before.ROOT), "/app")
            )


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        asyncio.run(fill(sys.argv[2], Path(sys.argv[3])))
    else:
        make_all()
