"""Calendars, tokens, single occurrences, windows, the audit in pages, and jobs listed by every filter and order."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring import Mainspring, every
from mainspring.core.queries import audit_lists
from tests.api.access_support import SECRET
from tests.api.client import client_of
from tests.api.test_roles import Someone
from tests.support import Nodes, ended

ICS = (
    "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261225\r\nSUMMARY:Christmas\r\nEND:VEVENT\r\nEND:VCALENDAR"
)


@pytest.mark.req("API-8", "SEC-3")
async def test_calendars_are_set_read_reverted_and_removed(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.calendars.declare("holidays", ["12-25"])
    app.job("report", cron="0 3 * * *", hours={"closed": ["holidays"]})(lambda: None)
    async with app, client_of(app) as client:
        made = await client.put("/api/v1/calendars/blackout", {"entries": ["2026-04-03", "sat-sun"], "ics": ICS})
        assert (made["count"], made["origin"], made["declared"], made["updated_by"]) == (
            3,
            "operator",
            False,
            "loopback",
        )
        assert {"entry": "2026-12-25", "label": "Christmas"} in made["entries"]
        listed = (await client.get("/api/v1/calendars"))["items"]
        assert [(each["name"], each["count"], each["origin"]) for each in listed] == [
            ("blackout", 3, "operator"),
            ("holidays", 1, "code"),
        ]
        assert "entries" not in listed[0]
        await client.put("/api/v1/calendars/holidays", {"entries": ["12-24", "12-25"]})
        assert (await client.get("/api/v1/calendars/holidays"))["count"] == 2
        assert (await client.post("/api/v1/calendars/holidays/revert"))["count"] == 1
        await client.refused(409, "POST", "/api/v1/calendars/blackout/revert")
        refused = await client.refused(409, "DELETE", "/api/v1/calendars/holidays")
        assert "report" in refused["message"]
        assert (await client.ask("DELETE", "/api/v1/calendars/blackout")).status_code == 204
        await client.refused(404, "GET", "/api/v1/calendars/blackout")
        actions = [each["action"] for each in (await client.get("/api/v1/audit?target=calendar:blackout"))["items"]]
        assert actions == ["remove_calendar", "set_calendar"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"entries": ["nonsense"]}, "entries"),
        ({"entries": []}, "body.entries"),
        ({"ics": "no calendar"}, "ics"),
        ({"ics": ICS.replace("\r\n", "\x00", 1)}, "ics"),
        ({}, "entries"),
        ({"entries": "12-25"}, "body.entries"),
    ],
)
async def test_what_is_no_calendar_is_refused_by_the_field(memory_nodes: Nodes, body: Any, field: str) -> None:
    app = memory_nodes.app()
    async with client_of(app) as client:
        error = await client.refused(400, "PUT", "/api/v1/calendars/holidays", body)
        assert error["details"][0]["field"].removeprefix("body.") == field.removeprefix("body.")
    await app.close()


@pytest.mark.parametrize(
    ("ics", "words"),
    [
        (
            ICS.replace("SUMMARY:", "ATTACH:" + "A" * 60_000),
            ["'ATTACH:AAA", "60,016 characters", "at most 50,000 char", "Leave out attach"],
        ),
        (ICS.replace("END:VCALENDAR", "BEGIN:VEVENT\r\n" * 2_000), ["more than 2,000 events", "several calendars"]),
    ],
)
async def test_what_is_too_large_for_a_calendar_is_named_with_a_remedy(
    memory_nodes: Nodes, ics: str, words: list[str]
) -> None:
    app = memory_nodes.app()
    async with client_of(app) as client:
        error = await client.refused(400, "PUT", "/api/v1/calendars/holidays", {"ics": ics})
        assert [each for each in words if each not in error["message"]] == []
    await app.close()


@pytest.mark.req("SEC-2", "SEC-4")
async def test_tokens_are_made_used_and_revoked_by_administrators(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(jwt_secret=SECRET, api_tokens=True)
    admin, operator = Someone(app, "admin"), Someone(app, "operator")
    body = {"name": "ci", "role": "viewer", "expires": "90d"}
    assert (await operator.ask("POST", "/api/v1/tokens", body)).status_code == 403
    assert (await operator.ask("GET", "/api/v1/tokens")).status_code == 403
    key = {"Idempotency-Key": "once"}
    made = await admin.ask("POST", "/api/v1/tokens", body, **key)
    again = await admin.ask("POST", "/api/v1/tokens", body, **key)
    text, id = made.json()["token"], made.json()["id"]
    assert (made.status_code, text.startswith(f"mainspring_{id}_"), made.json()["role"]) == (201, True, "viewer")
    assert (again.json()["id"], again.json()["token"], again.headers["idempotent-replay"]) == (id, None, "true")

    reader = Someone(app, "viewer", bearer=text)
    assert (await reader.ask("GET", "/api/v1/jobs")).status_code == 200
    assert (await reader.ask("GET", "/api/v1/tokens")).status_code == 403
    listed = await admin.ask("GET", "/api/v1/tokens")
    assert [(each["id"], each["status"]) for each in listed.json()["items"]] == [(id, "active")]
    assert text.rpartition("_")[2] not in listed.text
    revoked = await admin.ask("DELETE", f"/api/v1/tokens/{id}")
    assert (revoked.json()["status"], revoked.json()["revoked_by"]) == ("revoked", "jwt:ada")
    assert (await admin.ask("DELETE", f"/api/v1/tokens/{id}")).status_code == 409
    assert (await admin.ask("DELETE", "/api/v1/tokens/ci")).status_code == 404
    assert (await admin.ask("POST", "/api/v1/tokens", {**body, "role": "king"})).status_code == 400
    assert (await admin.ask("POST", "/api/v1/tokens", {**body, "expires": "soon"})).status_code == 400
    await app.close()


async def hourly(app: Mainspring) -> datetime:
    app.job("tick", trigger=every(hours=1))(lambda: None)
    at = (await app.job_view("tick")).next_run_at
    assert at is not None
    return at


@pytest.mark.req("API-4")
async def test_single_occurrences_are_skipped_moved_and_restored(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    first = await hourly(app)
    second, later = first + timedelta(hours=1), first + timedelta(minutes=90)
    path = "/api/v1/jobs/tick/occurrences"
    async with client_of(app) as client:
        skipped = await client.post(f"{path}/skip", {"at": first.isoformat()})
        assert [(each["to"], each["by"]) for each in skipped["occurrences"]] == [(None, "loopback")]
        moved = await client.post(f"{path}/move", {"at": second.isoformat(), "to": later.isoformat()})
        assert [each["to"] for each in moved["occurrences"]] == [None, moved["next_run_at"]]
        restored = await client.post(f"{path}/restore", {"at": first.isoformat()})
        assert len(restored["occurrences"]) == 1
        between = (first + timedelta(minutes=1)).isoformat()
        error = await client.refused(400, "POST", f"{path}/skip", {"at": between})
        assert error["details"][0]["field"] == "at"
        tag = {"If-Match": '"another-1"'}
        await client.refused(412, "POST", f"{path}/skip", {"at": first.isoformat()}, headers=tag)
        await client.refused(404, "POST", "/api/v1/jobs/nope/occurrences/skip", {"at": between})
        actions = [each["action"] for each in (await client.get("/api/v1/audit?target=job:tick"))["items"]]
        assert actions == ["restore_occurrence", "move_occurrence", "skip_occurrence"]
    await app.close()


@pytest.mark.req("API-8")
async def test_windows_of_a_job_are_told_by_state_and_in_pages(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()

    @app.job("sums", cron="0 3 * * *", window="yesterday")
    def sums() -> None: ...

    app.job("plain")(lambda: None)
    async with app, client_of(app) as client:
        window = ("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
        done = await ended(app, await app.trigger("sums", window=window))
        path = "/api/v1/jobs/sums/windows?begin=2026-01-01T00:00:00Z&end=2026-01-06T00:00:00Z"
        page = await client.get(f"{path}&limit=2&offset=1")
        assert (page["total"], len(page["items"])) == (sum(page["counts"].values()), 2)
        only = await client.get(f"{path}&state=done")
        assert [(each["begin"], each["execution_id"]) for each in only["items"]] == [(window[0], done.id)]
        await client.refused(400, "GET", "/api/v1/jobs/plain/windows")
        await client.refused(404, "GET", "/api/v1/jobs/nope/windows")


@pytest.mark.req("WIN-3", "WIN-4")
async def test_windows_are_shown_in_the_zone_of_the_job_and_can_be_sent_back(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("sums", cron="0 3 * * *", window="yesterday", tz="Europe/Berlin")(lambda: None)
    short_day = {"begin": "2026-03-29T00:00:00+01:00", "end": "2026-03-30T00:00:00+02:00"}
    async with app, client_of(app) as client:
        for given in ({"begin": "2026-03-29", "end": "2026-03-30"}, short_day):
            done = (await client.post("/api/v1/jobs/sums/trigger?wait=20s", {"window": given}))["execution"]
            assert (done["status"], done["window"]) == ("completed", short_day)
        for begin, end in (("2026-03-29", "2026-03-30"), short_day.values()):  # the second without encoding its +
            page = await client.get(f"/api/v1/jobs/sums/windows?begin={begin}&end={end}")
            assert [(each["begin"], each["end"], each["runs"]) for each in page["items"]] == [(*short_day.values(), 2)]
        planned = await client.post("/api/v1/backfills", {"job": "sums", **short_day, "force": True, "dry_run": True})
        assert (planned["range"], planned["windows"]) == (short_day, [short_day])


@pytest.mark.req("SEC-3", "API-13")
async def test_the_audit_is_searched_to_its_end_in_pages(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However old the record: a page that looks at no more says where to go on."""
    monkeypatch.setattr(audit_lists, "LOOKED_AT", 20)
    monkeypatch.setattr(audit_lists, "MAX_PAGE", 10)
    app = memory_nodes.app()
    app.job("job", trigger=every(hours=1))(lambda: None)
    await app.update_job("job", priority=1, by="ann")
    for number in range(60):
        await app.update_job("job", priority=number + 2, by="bob")
    async with client_of(app) as client:
        found, pages, cursor = [], 0, ""
        while True:
            page = await client.get(f"/api/v1/audit?actor=ann&limit=5{cursor}")
            found += page["items"]
            pages += 1
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert ([each["actor"] for each in found], pages > 1) == (["ann"], True)
        walked: list[str] = []
        cursor = ""
        while True:
            page = await client.get(f"/api/v1/audit?limit=9{cursor}")
            walked += [each["id"] for each in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert len(walked) == len(set(walked)) == 61
        assert walked == sorted(walked, reverse=True)
        [last] = (await client.get("/api/v1/audit?actor=bob&limit=1&offset=3"))["items"]
        assert last["id"] == walked[3]
    await app.close()


@pytest.mark.req("API-3", "API-13")
async def test_jobs_are_listed_by_every_filter_and_order(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("mail", queue="slow", description="Sends the Übersicht")(lambda: None)
    app.job("crawl", trigger=every(hours=2))(lambda: None)
    app.job("sync", trigger=every(hours=1))(lambda: None)

    @app.job("fragile", max_attempts=1)
    def fragile() -> None:
        raise ValueError("as asked")

    async with app, client_of(app) as client:

        async def names(query: str) -> list[str]:
            page = await client.get(f"/api/v1/jobs?{query}")
            assert page["total"] >= len(page["items"])
            return [each["id"] for each in page["items"]]

        await ended(app, await app.trigger("fragile"))
        await ended(app, await app.trigger("mail"))
        await client.post("/api/v1/jobs", {"name": "own", "handler": "sync", "interval_minutes": 30})
        await client.post("/api/v1/jobs/crawl/pause")
        await client.post("/api/v1/jobs/own/cancel")
        assert await names("sort=status") == ["own", "mail", "fragile", "crawl", "sync"]
        assert await names("sort=-status&limit=2&offset=1") == ["crawl", "fragile"]
        assert await names("status=failed&status=cancelled") == ["fragile", "own"]
        assert await names("status=paused&paused=false") == []
        assert await names("last_status=completed") == ["mail"]
        assert await names("q=%C3%9CBERSICHT") == ["mail"]
        assert await names("origin=api") == ["own"]
        assert await names("orphaned=true") == []
        assert await names("orphaned=false&sort=-name") == ["sync", "own", "mail", "fragile", "crawl"]
        assert (await names("sort=next_run_at"))[0] == "sync"
        assert (await names("sort=-last_run_at"))[:2] == ["mail", "fragile"]
        assert await names("handler=sync&sort=created_at") == ["sync", "own"]
        paged = await client.get("/api/v1/jobs?limit=3")
        assert (paged["total"], paged["next_cursor"]) == (5, "mail")
        assert await names("limit=3&cursor=mail") == ["own", "sync"]
        assert [each["id"] for each in await client.get("/_sys/job?limit=2&cursor=crawl")] == ["fragile", "mail"]
        assert [each["id"] for each in await client.get("/_sys/job?cursor=mail")] == ["own", "sync"]
