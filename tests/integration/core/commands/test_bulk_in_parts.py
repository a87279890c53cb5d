"""Bulk commands for more than one bulk handles: they go on where the one before ended. Filters are checked."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from mainspring import InvalidValue, JobContext, Mainspring, NonRetryable
from mainspring.app import bulk as app_bulk
from mainspring.cli import many
from mainspring.core.commands import bulk as core_bulk
from mainspring.core.commands.bulk import BulkInterrupted, BulkResult
from mainspring.core.commands.steering import Steering
from mainspring.model.errors import StoreError
from mainspring.model.job import JobState
from mainspring.server.models.bulk import ExecutionBulkFilter, JobBulkFilter
from mainspring.testing import harness
from tests.api.client import client_of


def _jobs(app: Mainspring, count: int) -> list[str]:
    names = [f"web-{number}" for number in range(count)]
    for name in names:
        app.job(name, cron="0 3 * * *", queue="web")(lambda: None)
    return names


@pytest.mark.req("FLW-6")
async def test_the_client_goes_on_until_all_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_bulk, "MOST", 2)
    app = Mainspring("memory://")
    names = _jobs(app, 5)
    some = await app.bulk.jobs("pause", queue="web", limit=3)
    assert ([item.id for item in some.items], some.done, some.more) == (names[:3], 3, True)
    rest = await app.bulk.jobs("pause", queue="web", after=some.next)
    assert ([item.id for item in rest.items], rest.done, rest.next) == (names[3:], 2, None)
    assert (await app.bulk.jobs("resume", queue="web")).done == 5
    app.job("work")(lambda: None)
    await app.enqueue_many([("work", None)] * 5, start_at="1h")
    assert (await app.bulk.executions("cancel", job="work", status="pending")).done == 5
    await app.close()


class Failing:
    """A store that is gone when the fourth job is to be paused, and back afterwards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        self.asked: list[str] = []
        pause = Steering.pause

        async def paused(steering: Steering, name: str, **options: Any) -> Any:
            self.asked.append(name)
            if len(self.asked) == 4:
                raise error
            return await pause(steering, name, **options)

        monkeypatch.setattr(Steering, "pause", paused)


@pytest.mark.req("FLW-6")
@pytest.mark.parametrize("most", [2, 3, 1_000])
async def test_what_breaks_off_in_the_middle_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """In the middle of a part, at the beginning of one, and in the first of all."""
    monkeypatch.setattr(app_bulk, "MOST", most)
    app = Mainspring("memory://")
    names = _jobs(app, 6)
    await app.pause(names[1])
    failing = Failing(monkeypatch, StoreError("gone"))
    with pytest.raises(BulkInterrupted) as caught:
        await app.bulk.jobs("pause", queue="web")
    so_far = caught.value.result
    assert ([item.id for item in so_far.items], so_far.done, so_far.refused) == (names[:3], 2, 1)
    assert str(caught.value) == f"pause: broke off after 2 done, 1 refused: gone; go on with after={names[2]!r}"
    rest = await app.bulk.jobs("pause", queue="web", after=so_far.next)
    assert ([item.id for item in rest.items], rest.done, rest.next) == (names[3:], 3, None)
    assert failing.asked == [*names[:4], *names[3:]]
    await app.close()


@pytest.mark.req("FLW-6")
async def test_of_named_ones_it_says_which_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Mainspring("memory://")
    names = _jobs(app, 6)
    Failing(monkeypatch, ConnectionResetError("gone"))
    with pytest.raises(BulkInterrupted, match=r"after 3 done, 0 refused: gone; 3 left, from 'web-3' on") as caught:
        await app.bulk.jobs("pause", names)
    assert (caught.value.rest, caught.value.result.next) == (tuple(names[3:]), None)
    await app.close()


@pytest.mark.req("FLW-6", "API-8")
async def test_so_does_the_command_line_and_http(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = Mainspring("memory://")
    names = _jobs(app, 6)
    Failing(monkeypatch, StoreError("secret of the store"))
    async with client_of(app) as client:
        error = await client.refused(503, "POST", "/api/v1/bulk/jobs", {"command": "pause", "filter": {"queue": "web"}})
    assert error["details"] == {"done": 3, "refused": 0, "next": names[2], "left": []}
    assert "secret" not in str(error)
    await app.close()

    class Session:
        wants_json = False

        def call(self, work: Any) -> BulkResult:
            items = [core_bulk.BulkItem(id=name, status="paused") for name in names[:3]]
            raise BulkInterrupted(BulkResult(command="pause", items=items, next=names[2]), StoreError("gone"))

        def show(self, data: Any, people: Any) -> None:
            people()

    with pytest.raises(StoreError, match=r"broke off: gone; to go on add --filter after=web-2"):
        many.run_bulk(Session(), "pause", None, "JOB")  # type: ignore[arg-type]
    assert "pause: 3 done, 0 refused" in capsys.readouterr().out
    assert many.read_filters(["queue=web", "after=web-2"]) == {"queue": "web", "after": "web-2"}


@pytest.mark.req("FLW-6")
def test_who_stops_it_is_told_how_far_it_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C comes when the third one is done."""
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")
    names = _jobs(app, 5)

    class Session:
        wants_json = False

        def call(self, work: Any) -> BulkResult:
            return asyncio.run(stopped(work))

        def show(self, data: Any, people: Any) -> None:
            people()

    async def stopped(work: Any) -> BulkResult:
        try:
            return await work(app)  # type: ignore[no-any-return]
        finally:
            await app.close()

    async def pause(app: Mainspring, told: Any) -> BulkResult:
        def stop(item: Any) -> None:
            told(item)
            if item.id == names[2]:
                signal.raise_signal(signal.SIGINT)

        return await app.bulk.jobs("pause", queue="web", on_item=stop)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            many.run_bulk(Session(), "pause", pause, "JOB")  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, before)
    screen = capsys.readouterr()
    assert "pause: 3 done, 0 refused" in screen.out
    assert f"--filter after={names[2]} goes on" in screen.err


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
        bulk, seen, after = (await app._runtime.ready()).bulk, list[str](), None
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
        bulk, filters = (await app._runtime.ready()).bulk, {"job": "nightly", "status": "failed"}
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
        await app.bulk.jobs("pause", names, **filters)
    assert (await app.job_view("web-0")).state is JobState.SCHEDULED
    if set(filters) <= {"status"}:
        with pytest.raises(InvalidValue, match=match.partition(";")[0]):
            await app.bulk.executions("cancel", names, **filters)
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
            assert ("null is not allowed" if said else "Say which are meant") in refused["message"]
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
