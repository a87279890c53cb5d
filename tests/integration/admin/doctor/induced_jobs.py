"""Misconfigurations of what runs, and of jobs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec

from mainspring import Hours, Mainspring, Retention, cron, daily_at, every, once
from mainspring.app.adapters import SystemClock
from mainspring.core.doctor import job_checks
from mainspring.core.doctor.facts import JobFacts, JobsFacts, LiveFacts
from mainspring.core.errors.commands import Affected, MuteView
from mainspring.core.forecast.ticks import planned
from mainspring.core.rules.problem_facts import Facts, LoopFacts
from mainspring.core.webhooks.endpoints import KIND, endpoint_of
from mainspring.model.job import JobSpec
from mainspring.model.store.entries import EntryWrite
from tests.integration.admin.doctor.clinic import Clinic, Result, induces
from tests.servers import postgres

ENDED = "0" * 31


async def noop(ctx: Any) -> None: ...


async def declared(clinic: Clinic, days_ago: float = 0.0, **options: Any) -> Result:
    """An installation with a running process and one job, declared with these options."""
    async with clinic.at_work(days_ago) as app:
        app.job("tidy", **options)(noop)
        await app.open()
    await clinic.worker(handlers=("tidy",), declares=("tidy",))
    return await clinic.examine()


# --- processes --------------------------------------------------------------------------------------------------------


@induces("nothing_runs")
async def _nothing(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        app.job("tidy", trigger=every(minutes=5))(noop)
        await app.open()
    return await clinic.examine()


@induces("no_scheduler")
async def _no_scheduler(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        app.job("tidy", trigger=every(minutes=5))(noop)
        await app.open()
    await clinic.worker(roles=("worker",), handlers=("tidy",), declares=("tidy",))
    return await clinic.examine()


async def _waiting(clinic: Clinic, **worker: Any) -> Result:
    async with clinic.at_work(days_ago=0.1) as app:
        app.job("send", queue="mail")(noop)
        await app.enqueue("send")
    await clinic.worker(declares=("send",), **worker)
    return await clinic.examine()


@induces("no_worker")
async def _no_worker(clinic: Clinic) -> Result:
    return await _waiting(clinic, queues=("other",), handlers=("send",))


@induces("no_handler")
async def _no_handler(clinic: Clinic) -> Result:
    return await _waiting(clinic, queues=("mail",), handlers=("other",))


@induces("queue_unserved")
async def _unserved(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        app.job("send", queue="mail")(noop)
        await app.open()
    await clinic.worker(queues=("default",), handlers=("send",), declares=("send",))
    return await clinic.examine()


@induces("handler_missing")
async def _handler_missing(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        app.job("send")(noop)
        await app.open()
    await clinic.worker(handlers=("other",), declares=("send",))
    return await clinic.examine()


@induces("silent_worker")
async def _silent(clinic: Clinic) -> Result:
    await clinic.worker(days_ago=0.1)
    return await clinic.examine()


async def _two(clinic: Clinic, first: dict[str, Any], second: dict[str, Any]) -> Result:
    await clinic.worker(id=f"{ENDED}1", **first)
    await clinic.worker(id=f"{ENDED}2", **second)
    return await clinic.examine()


@induces("releases_mixed")
async def _mixed(clinic: Clinic) -> Result:
    past = SystemClock().now() - 3 * 3600 * 1_000_000
    return await _two(clinic, {"release": "1", "started": past}, {"release": "2", "started": past})


@induces("mainspring_mixed")
async def _versions(clinic: Clinic) -> Result:
    return await _two(clinic, {"version": "0.1.0"}, {"version": "0.2.0"})


@induces("leases_differ")
async def _leases(clinic: Clinic) -> Result:
    return await _two(clinic, {"lease": 30.0}, {"lease": 60.0})


@induces("job_declared_twice")
async def _twice(clinic: Clinic) -> Result:
    shop, crm = (Mainspring(clinic.url, application=name) for name in ("shop", "crm"))
    shop.job("sync")(noop)
    crm.job("sync")(lambda ctx: None)
    async with shop, crm:
        return await clinic.examine()


@induces("pause_forgotten")
async def _paused_queue(clinic: Clinic) -> Result:
    async with clinic.at_work(days_ago=9) as app:
        await app.queues.pause("mail", by="ann")
    return await clinic.examine()


@induces("clock_skew")
async def _skew(clinic: Clinic) -> Result:
    real = SystemClock.now
    clinic.patch.setattr(SystemClock, "now", lambda self: real(self) + 60 * 1_000_000)
    return await clinic.examine(postgres().migrated_database())


def _live(**facts: Any) -> LiveFacts:
    now = SystemClock().now()
    return LiveFacts(now=now, problems=Facts(now=now, **facts))


@induces("wakeups_down")
async def _deaf(clinic: Clinic) -> Result:
    return clinic.judge(live=_live(channels={"store": False}))


@induces("loop_failing")
async def _failing(clinic: Clinic) -> Result:
    return clinic.judge(live=_live(loops=[LoopFacts("claims", 60.0, "StoreError: gone")]))


async def _endpoint(clinic: Clinic, **fields: Any) -> Result:
    async with clinic.at_work() as app:
        await app.webhooks.create("https://example.com/hook", description="billing")
        store = (await app._runtime.engine()).store
        [entry] = await store.list_entries(KIND, "")
        endpoint = endpoint_of(entry)
        assert endpoint is not None
        body = msgspec.json.encode(msgspec.structs.replace(endpoint, version=0, **fields)).decode()
        changed = msgspec.structs.replace(entry, body=body)
        assert await store.write_entries([EntryWrite(entry=changed, seen_version=entry.version)]) == [True]
    return await clinic.examine()


@induces("webhook_disabled")
async def _disabled(clinic: Clinic) -> Result:
    return await _endpoint(clinic, enabled=False, gave_up=True, disabled=1, disabled_reason="410 Gone")


@induces("webhook_failing")
async def _failing_hook(clinic: Clinic) -> Result:
    return await _endpoint(clinic, failing_since=SystemClock().now() - 3600 * 1_000_000)


@induces("token_endless")
async def _endless(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        await app.tokens.create("ci", "operator")
    return await clinic.examine()


@induces("token_expires")
async def _expiring(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        await app.tokens.create("ci", "operator", expires="3d")
    return await clinic.examine()


@induces("error_muted")
async def _muted(clinic: Clinic) -> Result:
    mute = MuteView(datetime.now(UTC) - timedelta(days=30), "ann", "", None)
    group = SimpleNamespace(id="e1", short_type="ValueError", jobs=[Affected("sync", 3)], mute=mute)
    return clinic.judge(live=msgspec.structs.replace(_live(), muted=[group]))


# --- jobs -------------------------------------------------------------------------------------------------------------


@induces("job_unreadable")
async def _unreadable(clinic: Clinic) -> Result:
    await declared(clinic, tz="Europe/Berlin", cron="0 3 * * *")
    with closing(sqlite3.connect(clinic.file)) as connection, connection:
        connection.execute("UPDATE mainspring_jobs SET declared = replace(declared, 'Europe/Berlin', 'Mars/Phobos')")
    return await clinic.examine()


@induces("schedule_never")
async def _never(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        app.job("tidy", cron="0 3 * * *", hours=Hours("09:00-17:00"))(noop)
        await app.open()
    return await clinic.examine()


@induces("schedule_past")
async def _past(clinic: Clinic) -> Result:
    return await declared(clinic, trigger=once("2020-01-01T00:00:00Z"))


def _timed(clinic: Clinic, seconds: float, **options: Any) -> Result:
    now = SystemClock().now()
    job = planned("tidy", JobSpec(handler="tidy", **options), now, Random(0))
    return clinic.judge(jobs=JobsFacts(now=now, jobs=[JobFacts(job=job, average_ms=seconds * 1000, runs=5)]))


@induces("schedule_overlaps")
async def _overlaps(clinic: Clinic) -> Result:
    return _timed(clinic, 600, trigger={"kind": "every", "seconds": 60})


@induces("timeout_too_short")
async def _nearly(clinic: Clinic) -> Result:
    return _timed(clinic, 58, timeout=60.0)


@induces("schedule_crowd")
async def _crowd(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        for number in range(job_checks.CROWD):
            app.job(f"tidy-{number}", trigger=daily_at("00:00"))(noop)
        await app.open()
    return await clinic.examine()


@induces("timeout_too_long")
async def _timeouts(clinic: Clinic) -> Result:
    return await declared(clinic, timeout=600, run_timeout=60)


@induces("job_pause_forgotten")
async def _paused_job(clinic: Clinic) -> Result:
    async with clinic.at_work(days_ago=9) as app:
        app.job("tidy", trigger=cron("0 3 * * *"))(noop)
        await app.open()
        await app.pause("tidy", by="ann")
    return await clinic.examine()


@induces("job_orphaned")
async def _orphan(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:
        app.job("tidy")(noop)
        await app.open()
    await clinic.worker(handlers=("tidy",))
    return await clinic.examine()


@induces("secret_in_params")
async def _secret(clinic: Clinic) -> Result:
    async with clinic.at_work() as app:

        @app.job("pay", params={"gateway": {"api_key": "4f1c"}})
        async def pay(ctx: Any, gateway: dict[str, str]) -> None: ...

        await app.open()
    return await clinic.examine()


@induces("history_endless")
async def _history(clinic: Clinic) -> Result:
    clinic.patch.setattr(job_checks, "MUCH_HISTORY", -1)
    return await declared(clinic, retention=Retention(days=4_000))
