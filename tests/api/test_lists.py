"""Every list can be filtered, sorted and read in pages; every refusal names field, value and remedy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.json import encode

from mainspring import Mainspring, every
from mainspring.core.render.entities import attempt_json, execution_json
from mainspring.core.views.execution import Attempt, Execution
from mainspring.model.errors import InvalidValue
from mainspring.model.execution import AttemptRecord, ExecutionRow
from mainspring.server.api import create_api
from mainspring.server.errors import problem_of, validation_problem
from mainspring.server.models.lists import check_range
from mainspring.testing import FakeClock
from tests.api.client import Client, client_of
from tests.support import ON_A_FAKE_CLOCK, Nodes

WITHOUT_SORT = {
    "/api/v1/executions/{id}/tenants": "failed ones first",
    "/api/v1/jobs/{id}/windows": "oldest first, as time goes",
    "/api/v1/missed-runs": "newest first, by its cursor",
}
NO_PAGES = {"/api/v1/tenants"}  # the busiest, as many as asked for
BY_PLACE = {  # read in the order in which they came, each page from where the last one ended
    "/api/v1/bulk/{id}/items": "cursor",
    "/api/v1/changes": "until",
}


@pytest.mark.req("API-3", "API-8", "SEC-4")
def test_every_list_has_pages_and_an_order() -> None:
    document = create_api(Mainspring("memory://")._runtime).openapi()
    lists = {}
    for path, operations in document["paths"].items():
        answer = operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        name = answer.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        if "items" in document["components"]["schemas"].get(name, {}).get("properties", {}):
            lists[path] = {each.get("name") for each in operations["get"]["parameters"]}
    lines = lists.pop("/api/v1/executions/{id}/logs")
    assert {"after", "limit"} <= lines
    assert len(lists) >= 13
    for path, parameters in lists.items():
        if path in NO_PAGES:
            assert {"limit", "sort"} <= parameters, path
            continue
        if path in BY_PLACE:
            assert {"limit", BY_PLACE[path]} <= parameters, path
            continue
        assert {"limit", "offset"} <= parameters, path
        assert "sort" in parameters or path in WITHOUT_SORT, path


@pytest.mark.req("API-8")
def test_a_range_of_time_may_be_given_in_durations_before_now() -> None:
    begin, end = check_range("2h", "1h")
    assert begin is not None
    assert end is not None
    assert end - begin == timedelta(hours=1)
    with pytest.raises(InvalidValue, match="or text such as '2h', for two hours ago"):
        check_range("yesterday", None)


@pytest.mark.req("API-9")
def test_every_post_takes_an_idempotency_key() -> None:
    document = create_api(Mainspring("memory://")._runtime).openapi()
    posts = {path: each["post"] for path, each in document["paths"].items() if "post" in each}
    assert len(posts) > 20
    del posts["/hooks/{name}"]  # which has the sender's id of the delivery instead
    for path, operation in posts.items():
        assert "Idempotency-Key" in {each.get("name") for each in operation["parameters"]}, path


async def _names(client: Client, path: str, field: str = "name") -> list[Any]:
    return [each[field] for each in (await client.get(path))["items"]]


@pytest.mark.req("API-8", "LCK-4")
async def test_short_lists_are_filtered_sorted_and_paged(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("crawl", window="yesterday", cron="0 3 * * *")(lambda: None)
    app.job("report", queue="slow")(lambda: None)
    app.calendars.declare("bank", ["12-25"])
    await app.calendars.set("office", ["12-24"])
    for name, role in (("ci", "viewer"), ("deploy", "admin"), ("old", "viewer")):
        await app.tokens.create(name, role)
    await app.tokens.revoke("old")
    for name, handler in (("nightly", "crawl"), ("weekly", "report"), ("daily", "crawl")):
        await app.templates.create(name, handler)
    async with app, client_of(app) as client, app.lock("import", ttl=60), app.lock("export", ttl=60):
        for path, names in {
            "handlers": ["crawl", "report"],
            "handlers?sort=-name": ["report", "crawl"],
            "handlers?q=CRA&known_here=true": ["crawl"],
            "handlers?limit=1&offset=1": ["report"],
            "handlers?known_here=false": [],
            "calendars": ["bank", "office"],
            "calendars?origin=operator": ["office"],
            "calendars?sort=-updated_at&limit=1": ["bank"],
            "templates": ["daily", "nightly", "weekly"],
            "templates?handler=crawl&sort=created_at": ["nightly", "daily"],
            "templates?sort=-created_at&limit=2": ["daily", "weekly"],
            "tokens": ["ci", "deploy", "old"],
            "tokens?role=viewer&status=active": ["ci"],
            "tokens?sort=-name&limit=2": ["old", "deploy"],
            "locks": ["export", "import"],
            "locks?q=imp": ["import"],
            "locks?sort=acquired_at": ["import", "export"],
            "locks?owner=nobody": [],
        }.items():
            assert await _names(client, f"/api/v1/{path}") == names, path
        for path, count in {
            "workers?role=worker": 1,
            "workers?role=api": 0,
            "workers?handler=report&queue=slow&sort=-host": 1,
            "workers?handler=nope": 0,
            "workers?q=nowhere": 0,
        }.items():
            assert (await client.get(f"/api/v1/{path}"))["total"] == count, path
        listed = await client.get("/api/v1/tokens?limit=1")
        assert (listed["total"], listed["limit"], listed["offset"], len(listed["items"])) == (3, 1, 0, 1)
        await client.refused(400, "GET", "/api/v1/locks?sort=owner")


@pytest.mark.req("API-8", "WIN-5")
async def test_backfills_are_filtered_sorted_and_paged(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("crawl", window="yesterday", cron="0 3 * * *")(lambda: None)
    made = [await app.backfill("crawl", f"2026-01-0{day}", f"2026-01-0{day + 1}") for day in (1, 2, 3)]
    await app.backfills.pause(made[1].id)
    async with client_of(app) as client:
        ids = [each.id for each in made]
        assert await _names(client, "/api/v1/backfills", "id") == ids[::-1]
        assert await _names(client, "/api/v1/backfills?sort=created_at&limit=2&offset=1", "id") == ids[1:]
        assert await _names(client, "/api/v1/backfills?status=paused&job=crawl", "id") == [ids[1]]
        assert (await client.get("/api/v1/backfills?job=nope"))["total"] == 0
    await app.close()


@pytest.mark.req("SEC-3", "HIS-1")
async def test_the_audit_is_searched_by_time(tmp_path: Any) -> None:
    clock = FakeClock()
    app = Nodes("memory", tmp_path).app(clock=clock, **ON_A_FAKE_CLOCK)
    times = []
    for day in range(4):
        clock.advance(86_400)
        times.append(clock.now())
        await app.calendars.set("bank", [f"12-2{day}"])
    async with client_of(app) as client:
        every = (await client.get("/api/v1/audit"))["items"]
        at = [each["at"] for each in reversed(every)]
        for query, wanted in {
            f"since={at[1]}": [3, 2, 1],
            f"until={at[1]}": [0],
            f"since={at[1]}&until={at[3]}": [2, 1],
            f"since={at[1]}&until={at[3]}&limit=1": [2],
            f"until={at[3]}&actor=system&limit=2": [2, 1],
        }.items():
            page = await client.get(f"/api/v1/audit?{query}")
            assert [at.index(each["at"]) for each in page["items"]] == wanted, query
        page = await client.get(f"/api/v1/audit?until={at[3]}&limit=1")
        rest = await client.get(f"/api/v1/audit?until={at[3]}&cursor={page['next_cursor']}")
        assert [at.index(each["at"]) for each in rest["items"]] == [1, 0]
        await client.refused(400, "GET", f"/api/v1/audit?since={at[3]}&until={at[1]}")
    await app.close()


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.req("API-9")
def test_a_refused_value_is_told_with_field_value_and_remedy() -> None:
    problem = problem_of(InvalidValue("hour", 25, "0 to 23", "Use 23"))
    assert problem.details == [{"field": "hour", "message": "0 to 23", "value": 25, "remedy": "Use 23"}]


@pytest.mark.req("API-9", "SEC-4")
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (2**70, str(2**70)),
        ("short", "short"),
        ("\ud800", "?"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_any_value_can_be_told(value: Any, told: Any) -> None:
    problem = problem_of(InvalidValue("field", value, "something else"))
    assert problem.details[0]["value"] == told
    assert problem.answer.status == 400
    long = problem_of(InvalidValue("field", "x" * 10_000, "something else"))
    assert len(long.details[0]["value"]) <= 80


@pytest.mark.req("API-9")
async def test_what_does_not_fit_its_model_is_told_in_the_same_way(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    async with client_of(app) as client:
        error = await client.refused(400, "POST", "/api/v1/jobs", {"handler": "x", "priority": "high"})
        assert error["details"][0]["value"] == "high"
        missing = await client.refused(400, "POST", "/api/v1/jobs", {"name": "x"})
        assert missing["details"] == [{"field": "handler", "message": "Field required"}]
    broken = [{"loc": ("body", 3), "msg": "broken", "type": "json_invalid", "input": {}}]
    assert validation_problem(broken).details == [{"field": "body", "message": "broken"}]
    await app.close()


@pytest.mark.req("FLW-6", "SEC-4")
async def test_a_filter_for_many_that_says_null_is_refused(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    async with client_of(app) as client:
        for target, filter in [("jobs", {}), ("jobs", {"queue": None}), ("executions", {"job": "a", "queue": None})]:
            body = {"target": target, "action": "cancel", "filter": filter}
            error = await client.refused(400, "POST", "/api/v1/bulk", body)
            assert ("null is not allowed" if filter else "Name the items, or give at least one filter") in error[
                "message"
            ]
    await app.close()


CURSORS = {
    "jobs": "crawl",
    "executions": "019b7000-0000-7000-8000-000000000001",
    "jobs/crawl/executions": "019b7000-0000-7000-8000-000000000001",
    "audit": "019b7000-0000-7000-8000-000000000001",
    "missed-runs": "000000000000000001:x",
}


@pytest.mark.req("API-13")
async def test_a_page_begins_at_a_cursor_or_at_an_offset(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("crawl")(lambda: None)
    async with client_of(app) as client:
        await app.job_view("crawl")
        for path, cursor in CURSORS.items():
            error = await client.refused(400, "GET", f"/api/v1/{path}", params={"cursor": cursor, "offset": 7})
            [detail] = error["details"]
            assert (detail["field"], detail["value"]) == ("offset", 7), path
            assert "Leave offset out" in detail["message"] + str(detail.get("remedy")), detail
            await client.get(f"/api/v1/{path}", params={"cursor": cursor, "offset": 0})
    await app.close()


@pytest.mark.req("SEC-3")
async def test_the_audit_tells_notes_and_reasons(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("crawl", trigger=every(hours=1), overlap="allow")(lambda: None)
    async with client_of(app) as client:
        waiting = (await client.post("/api/v1/jobs/crawl/trigger"))["execution_id"]
        await client.post("/api/v1/jobs/crawl/pause", {"note": "the shop is closed"})
        await client.post(f"/api/v1/executions/{waiting}/cancel", {"reason": "wrong month"})
        await client.post("/api/v1/jobs/crawl/cancel", {"reason": "retired"})
        after = {
            (each["target"], each["action"]): each["after"] for each in (await client.get("/api/v1/audit"))["items"]
        }
    assert after["job:crawl", "pause"]["pause_note"] == "the shop is closed"
    assert after[f"execution:{waiting}", "cancel"] == {"reason": "wrong month"}
    assert after["job:crawl", "cancel"]["reason"] == "retired"
    await app.close()


@pytest.mark.req("API-12")
def test_cpu_time_is_told_to_the_microsecond() -> None:
    attempt = AttemptRecord(number=1, worker="w", started=0, ended=1_500, end="completed", cpu_ms=1.2345678901)
    execution = ExecutionRow(id="x", job="j", job_id="i", handler="h", attempts_json=encode([attempt]).decode())
    assert attempt_json(Attempt(attempt))["cpu_time_ms"] == 1.235
    assert execution_json(Execution(execution))["cpu_time_ms"] == 1.235
