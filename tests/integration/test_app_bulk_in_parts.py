"""Bulk commands for more than one bulk handles: they go on where the one before ended. Filters are checked."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import InvalidValue, JobContext, Mainspring, NonRetryable, flow_methods
from mainspring.core import bulk as core_bulk
from mainspring.model.job import JobState
from mainspring.server.bulk_models import ExecutionBulkFilter, JobBulkFilter
from mainspring.testing import harness
from tests.api.client import client_of


def _jobs(app: Mainspring, count: int) -> list[str]:
    names = [f"web-{number}" for number in range(count)]
    for name in names:
        app.job(name, cron="0 3 * * *", queue="web")(lambda: None)
    return names


@pytest.mark.req("FLW-6")
async def test_the_client_goes_on_until_all_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_methods, "MOST", 2)
    app = Mainspring("memory://")
    names = _jobs(app, 5)
    some = await app.bulk_jobs("pause", queue="web", limit=3)
    assert ([item.id for item in some.items], some.done, some.more) == (names[:3], 3, True)
    rest = await app.bulk_jobs("pause", queue="web", after=some.next)
    assert ([item.id for item in rest.items], rest.done, rest.next) == (names[3:], 2, None)
    assert (await app.bulk_jobs("resume", queue="web")).done == 5
    app.job("work")(lambda: None)
    await app.enqueue_many([("work", None)] * 5, start_at="1h")
    assert (await app.bulk_executions("cancel", job="work", status="pending")).done == 5
    await app.close()


@pytest.mark.req("FLW-6")
async def test_a_retry_in_parts_retries_each_once() -> None:
    app = Mainspring("memory://")

    @app.job("fails", max_attempts=1)
    async def fails(ctx: JobContext) -> None:
        raise NonRetryable("no")

    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("fails", None)] * 5)
        await kit.run_until_idle()
        await kit.advance(60)
        bulk, seen, after = (await app._ready()).bulk, list[str](), None
        for size in (2, 2, 1):
            part = await bulk.executions("retry", None, {"status": "failed"}, by="ada", after=after, limit=2)
            assert len(part.items) == size
            seen, after = seen + [item.id for item in part.items], part.next
            await kit.run_until_idle()  # what was retried has failed again by now
        assert (after, len(set(seen))) == (None, 5)


@pytest.mark.req("FLW-6", "TEN-4")
async def test_tenants_that_a_parent_stands_for_hide_no_other_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_bulk, "MOST", 4)  # rows of a page, fewer than a parent has tenants
    app = Mainspring("memory://")

    @app.job("nightly", tenants=list("abcdef"), tenant_max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        raise NonRetryable("no")

    async with harness(app, raise_errors=False) as kit:
        parents = set()
        for _ in range(3):
            parents.add((await app.trigger("nightly")).id)
            await kit.run_until_idle()
        bulk, filters = (await app._ready()).bulk, {"job": "nightly", "status": "failed"}
        first = await bulk.executions("retry", None, filters, by="ada", limit=2)
        second = await bulk.executions("retry", None, filters, by="ada", limit=2, after=first.next)
        assert (len(first.items), first.more, len(second.items), second.more) == (2, True, 1, False)
        assert {item.id for item in first.items + second.items} == parents
        monkeypatch.setattr(core_bulk, "MOST_PAGES", 1)
        short = await bulk.executions("retry", None, filters, by="ada", limit=4)
        assert short.more  # it says so when it has not looked at all of them


@pytest.mark.req("FLW-6")
@pytest.mark.parametrize(
    ("names", "filters", "match"),
    [
        (["web-0"], {"queue": "mail"}, r"filter: \['queue'\]"),
        (None, {"status": 3}, "status: 3 is not valid; allowed: 'pending'"),
        (None, {"status": []}, r"status: \[\] is not valid"),
        (None, {"last_status": "wat"}, "last_status: 'wat' is not valid; allowed: 'pending'"),
        (None, {"paused": "yes"}, "paused: 'yes' is not valid; allowed: True or False"),
        (None, {"queue": 7}, "queue: 7"),
        (None, {"origin": "web"}, "origin: 'web'"),
        (None, {"queue": None}, "Say which are meant"),
        (["web-0"], {"after": "web-0"}, "after: 'web-0'"),
    ],
)
async def test_filters_that_cannot_be_meant_are_refused(names: Any, filters: dict[str, Any], match: str) -> None:
    app = Mainspring("memory://")
    _jobs(app, 1)
    with pytest.raises(InvalidValue, match=match):
        await app.bulk_jobs("pause", names, **filters)
    assert (await app.job_view("web-0")).state is JobState.SCHEDULED
    if set(filters) <= {"status"}:
        with pytest.raises(InvalidValue, match=match.partition(";")[0]):
            await app.bulk_executions("cancel", names, **filters)
    await app.close()


@pytest.mark.req("FLW-6", "API-8")
async def test_over_http_a_filter_that_says_nothing_is_refused_and_next_goes_on() -> None:
    app = Mainspring("memory://")
    names = _jobs(app, 3)
    async with client_of(app) as client:
        for path, said in [("jobs", {}), ("jobs", {"queue": None}), ("executions", {}), ("executions", {"job": None})]:
            body = {"command": "cancel", "filter": said}
            refused = await client.refused(400, "POST", f"/api/v1/bulk/{path}", body)
            assert f"filter: {said!r} is not valid" in refused["message"]
            assert ("null says nothing" if said else "Say which are meant") in refused["message"]
        assert {view.state for view in await app.jobs()} == {JobState.SCHEDULED}
        body = {"command": "pause", "filter": {"search": "WEB"}, "after": names[0]}
        done = await client.post("/api/v1/bulk/jobs", body)
        assert ([each["id"] for each in done["results"]], done["next"]) == (names[1:], None)
        assert (await client.get("/api/v1/jobs?search=WEB-2"))["total"] == 1
        for one in ("parent_id", "trace_id"):
            body = {"command": "cancel", "filter": {one: "nobody"}}
            assert (await client.post("/api/v1/bulk/executions", body))["matched"] == 0
    await app.close()
    for model in (JobBulkFilter, ExecutionBulkFilter):
        assert model.model_json_schema()["minProperties"] == 1
