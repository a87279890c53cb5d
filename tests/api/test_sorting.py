"""Executions and audit records, oldest first: pages, cursors, filters, and where that order of the audit ends."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from mainspring import Mainspring, every
from mainspring.core.queries import audit_lists, execution_lists
from tests.api.client import Client, client_of
from tests.support import Nodes

pytestmark = pytest.mark.req("API-5", "API-13")

EXECUTIONS, AUDIT = "/api/v1/executions", "/api/v1/audit"


async def walked(client: Client, path: str, **params: Any) -> list[str]:
    """All ids, page after page."""
    found: list[str] = []
    while True:
        page = await client.get(path, params=params)
        found += [each["id"] for each in page["items" if "items" in page else "executions"]]
        assert len(found) < 1_000, "it never ends"
        if page["next_cursor"] is None:
            return found
        params["cursor"] = page["next_cursor"]


async def worked(nodes: Nodes) -> Mainspring:
    """Twelve executions of one job and eleven of another, none of which runs."""
    app = nodes.app()
    app.job("mail")(lambda: None)
    app.job("crawl", trigger=every(hours=1), overlap="allow")(lambda: None)
    for _ in range(11):
        await app.enqueue("mail")
        await app.trigger("crawl")
    await app.enqueue("mail", tenant="acme")
    return app


async def test_executions_are_listed_from_the_oldest(nodes: Nodes) -> None:
    app = await worked(nodes)
    async with client_of(app) as client:
        newest = await walked(client, EXECUTIONS)
        assert len(newest) == 23
        assert await walked(client, EXECUTIONS, sort="-created_at", limit=5) == newest
        assert await walked(client, EXECUTIONS, sort="created_at", limit=5) == newest[::-1]
        for path, filters in [(EXECUTIONS, {"job": "mail"}), ("/api/v1/jobs/crawl/executions", {})]:
            backwards = await walked(client, path, **filters)
            assert await walked(client, path, sort="created_at", limit=4, **filters) == backwards[::-1]
        page = await client.get(EXECUTIONS, params={"sort": "created_at", "offset": 20, "limit": 5})
        assert ([each["id"] for each in page["items"]], page["total"]) == (newest[:3][::-1], 23)
        beyond = await client.get(EXECUTIONS, params={"sort": "created_at", "offset": 23})
        assert (beyond["items"], beyond["next_cursor"]) == ([], None)
        nothing = {"sort": "created_at", "tenant": "nobody"}
        assert (await client.get(EXECUTIONS, params=nothing))["items"] == []
        between = {"sort": "created_at", "limit": 2, "cursor": "ffffffff-ffff-ffff-ffff-ffffffffffff"}  # after all
        assert (await client.get(EXECUTIONS, params=between))["items"] == []
        first = {"sort": "created_at", "limit": 2, "cursor": "00000000-0000-0000-0000-000000000000"}
        assert [each["id"] for each in (await client.get(EXECUTIONS, params=first))["items"]] == newest[-2:][::-1]
    await app.close()


async def test_that_order_goes_as_far_as_the_other(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    app = await worked(memory_nodes)
    monkeypatch.setattr(execution_lists, "MAX_OFFSET", 15)
    async with client_of(app) as client:
        assert len(await walked(client, EXECUTIONS, sort="created_at", limit=5)) == 23
        await client.refused(400, "GET", f"{EXECUTIONS}?sort=created_at&offset=16")
    await app.close()


async def audited(nodes: Nodes) -> Mainspring:
    app = nodes.app()
    for name in ("mail", "crawl"):
        app.job(name, trigger=every(hours=1))(lambda: None)
    for number in range(12):
        await app.update_job("crawl" if number % 3 == 0 else "mail", priority=number + 1, by="ann" if number else "bob")
    return app


@pytest.mark.req("SEC-3")
async def test_the_audit_is_read_from_its_beginning(nodes: Nodes) -> None:
    app = await audited(nodes)
    async with client_of(app) as client:
        newest = await walked(client, AUDIT)
        assert len(newest) == 12
        assert await walked(client, AUDIT, sort="at", limit=5) == newest[::-1]
        for filters in ({"target": "job:crawl"}, {"actor": "ann"}, {"target": "job:crawl", "actor": "ann"}):
            backwards = await walked(client, AUDIT, **filters)
            assert await walked(client, AUDIT, sort="at", limit=2, **filters) == backwards[::-1]
        records = (await client.get(AUDIT, params={"sort": "at"}))["items"]
        assert [each["actor"] for each in records[:2]] == ["bob", "ann"]
        times = {"since": records[2]["at"], "until": records[7]["at"]}
        since, until = map(datetime.fromisoformat, times.values())
        inside = [each["id"] for each in records if since <= datetime.fromisoformat(each["at"]) < until]
        assert await walked(client, AUDIT, sort="at", limit=2, **times) == inside
        page = await client.get(AUDIT, params={"sort": "at", "offset": 10, "limit": 5})
        assert [each["id"] for each in page["items"]] == newest[:2][::-1]
    await app.close()


@pytest.mark.req("SEC-3")
async def test_so_is_what_is_rare_in_it_and_no_target_is_read_without_end(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await audited(memory_nodes)
    monkeypatch.setattr(audit_lists, "LOOKED_AT", 4)
    monkeypatch.setattr(audit_lists, "MAX_PAGE", 2)
    async with client_of(app) as client:
        rare = await client.get(AUDIT, params={"sort": "at", "actor": "nobody", "limit": 2})
        assert (rare["items"], rare["next_cursor"] is None) == ([], False)
        assert len(await walked(client, AUDIT, sort="at", target="job:crawl", limit=2)) == 4
        error = await client.refused(400, "GET", f"{AUDIT}?sort=at&target=job:mail&limit=2")
        assert error["details"][0]["message"] == "-at for a target that has more than 4 records"
    await app.close()


async def test_other_orders_are_refused_by_the_names_of_those_there_are(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    async with client_of(app) as client:
        for path, allowed in [(EXECUTIONS, "'-created_at' or 'created_at'"), (AUDIT, "'-at' or 'at'")]:
            (detail,) = (await client.refused(400, "GET", f"{path}?sort=duration"))["details"]
            assert (detail["field"], detail["value"]) == ("sort", "duration")
            assert allowed in detail["message"]
    await app.close()
