"""What code can say of a job can be said over HTTP too: the same options, the same rules, the same refusals."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import Mainspring, every
from mainspring.core.declaring.options import HTTP_FIELDS, OPTIONS
from mainspring.model.errors import InvalidValue
from mainspring.server.models.jobs import JobFields
from tests.api.access_support import SECRET
from tests.api.client import client_of
from tests.api.test_roles import Someone
from tests.support import Nodes

pytestmark = pytest.mark.req("API-3")

NOT_OVER_HTTP = {
    "tenants": "a function, or stands for one",
    "tenant_context": "a function",
    "allow_override": "for code, about its own declaration",
    "enabled": "is schedule_enabled",
    "cron": "is schedule",
}
SECRET_PATH = "d34d-m4n"
ADDRESS, HOST = f"https://hc.example/{SECRET_PATH}", "https://hc.example/..."

SAID: list[tuple[str, Any, Any]] = [
    ("hours", "09:00-17:00", {"times": ["09:00-17:00"]}),
    ("hours", {"days": "mon-fri", "closed": ["bank"]}, {"days": [1, 2, 3, 4, 5], "closed": ["bank"]}),
    ("outside", "wait", "wait"),
    ("trigger_role", "admin", "admin"),
    ("missed", {"rule": "all", "max_age": "7d", "max_runs": 5.0}, {"rule": "all", "max_age": 604800.0, "max_runs": 5}),
    ("missed_while_paused", "latest", "latest"),
    ("window", {"offset": ["2h", "1h"]}, {"offset": ["2h", "1h"]}),
    ("window", {"window": "yesterday", "align": "day"}, {"window": "previous_day", "align": "day"}),
    ("retry", "patient", {"initial": 60.0, "multiplier": 2.0, "max": 3600.0, "jitter": 0.0, "delays": []}),
    (
        "retry",
        {"initial": "1s", "jitter": 0.5},
        {"initial": 1.0, "multiplier": 2.0, "max": None, "jitter": 0.5, "delays": []},
    ),
    ("non_retryable", ["ValueError", "shop.Gone"], ["ValueError", "shop.Gone"]),
    ("tenant_concurrency", 3, 3),
    ("tenant_max_attempts", 2, 2),
    ("continue_on_failure", False, False),
]
REFUSED: list[tuple[str, Any]] = [
    ("hours", "25:00-26:00"),
    ("hours", {"days": "someday"}),
    ("hours", {"closed": ["unheard-of"]}),
    ("hours", {}),
    ("missed", {"rule": "skip", "max_age": "7d"}),
    ("retry", {"initial": "soon"}),
    ("tenant_retry", {"max": "soon"}),
    ("non_retryable", ["not a name"]),
    ("window", "someday"),
    ("ping", "ftp://hc.example/abc"),
    ("ping", {}),
]


def shop(nodes: Nodes, **settings: Any) -> Mainspring:
    app = nodes.app(**settings)
    app.calendars.declare("bank", ["12-25"])
    app.job("report", trigger=every(hours=1), tenants=["acme"])(lambda: None)
    return app


def test_every_option_of_a_declaration_can_be_set_or_is_named_here() -> None:
    assert list(JobFields.model_fields) == list(HTTP_FIELDS)
    known = {field.option for field in HTTP_FIELDS.values()}
    assert set(OPTIONS) - known == set(NOT_OVER_HTTP)


async def test_each_can_be_set_and_is_shown_and_audited(memory_nodes: Nodes) -> None:
    app = shop(memory_nodes)
    async with client_of(app) as client:
        for field, value, shown in SAID:
            job = await client.put("/api/v1/jobs/report", {field: value})
            assert (job["policy"][field], job["overrides"][field]) == (shown, shown), field
            record = (await client.get("/api/v1/audit", params={"target": "job:report", "limit": 1}))["items"][0]
            assert (record["action"], record["after"]["overrides"][field]) == ("update", shown)
        assert set((await client.post("/api/v1/jobs/report/revert"))["overrides"]) == set()
        retention = await client.put("/api/v1/jobs/report", {"retention": {"days": 3, "by_state": {"failed": 90}}})
        kept = retention["policy"]["retention"]
        assert (kept["days"], kept["newest"], kept["by_state"]) == (3.0, 100, {"failed": 90.0})
        await client.put("/api/v1/jobs/report", {"hours": "09:00-17:00", "trigger_role": "admin", "ping": ADDRESS})
        bare = await client.put("/api/v1/jobs/report", {"hours": None, "trigger_role": None, "ping": None})
        assert set(bare["overrides"]) == {"retention"}
    await app.close()


async def test_what_is_refused_is_refused_as_in_code(memory_nodes: Nodes) -> None:
    app = shop(memory_nodes)
    async with client_of(app) as client:
        for field, value in REFUSED:
            with pytest.raises(InvalidValue) as in_code:
                await app.update_job("report", **{field: value})
            expected = in_code.value
            (detail,) = (await client.refused(400, "PUT", "/api/v1/jobs/report", {field: value}))["details"]
            assert detail["field"] == expected.field.partition(" ")[0], field
            assert (detail["message"], detail.get("remedy", "")) == (expected.allowed, expected.remedy)
            assert detail["field"].partition(".")[0] == field
            assert "value" in detail
        both = {"retry": "queue", "retry_backoff_seconds": 5}
        (detail,) = (await client.refused(400, "PUT", "/api/v1/jobs/report", both))["details"]
        assert (detail["field"], detail["remedy"]) == ("retry", "Give one of them")
        assert await app.audits("job:report") == []
    await app.close()


@pytest.mark.req("EXE-10")
async def test_isolation_and_its_limits(memory_nodes: Nodes) -> None:
    app = shop(memory_nodes)
    limited = {"isolation": "process", "max_cpu": "5m", "max_memory": "1GB", "max_address_space": 2e9}
    async with client_of(app) as client:
        (detail,) = (await client.refused(400, "PUT", "/api/v1/jobs/report", {"max_memory": "1GB"}))["details"]
        assert (detail["field"], detail["remedy"]) == ("max_memory", 'Set isolation="process"')
        policy = (await client.put("/api/v1/jobs/report", limited))["policy"]
        shown = [policy[name] for name in limited]
        assert shown == ["process", 300.0, 10**9, 2 * 10**9]
        made = (await client.post("/api/v1/jobs", {"name": "made", "handler": "report"}))["policy"]
        assert [made[name] for name in limited] == shown
        plain = {"name": "plain", "handler": "report", "isolation": "thread"}
        assert (await client.post("/api/v1/jobs", plain))["policy"]["max_cpu"] is None
        await client.refused(400, "PUT", "/api/v1/jobs/report", {"isolation": "thread"})
        bare = (await client.put("/api/v1/jobs/report", dict.fromkeys(limited)))["policy"]
        assert [bare[name] for name in limited] == ["thread", None, None, None]
    await app.close()


@pytest.mark.req("SEC-4")
async def test_addresses_that_are_set_stay_masked(memory_nodes: Nodes) -> None:
    app = shop(memory_nodes, jwt_secret=SECRET)
    app.job("mail")(lambda: None)
    operator, viewer, admin = (Someone(app, role) for role in ("operator", "viewer", "admin"))
    put = await operator.ask("PUT", "/api/v1/jobs/report", {"ping": {"success": ADDRESS, "failure": ADDRESS}})
    assert put.json()["policy"]["ping"] == {"success": ADDRESS, "failure": ADDRESS}
    made = await operator.ask("POST", "/api/v1/jobs", {"name": "made", "handler": "mail", "ping": ADDRESS})
    assert (made.status_code, made.json()["policy"]["ping"]) == (201, {"success": ADDRESS})
    assert (await viewer.ask("GET", "/api/v1/jobs/made")).json()["policy"]["ping"] == {"success": HOST}
    for path in ("/api/v1/jobs", "/api/v1/jobs/report", "/api/v1/audit"):
        told = (await viewer.ask("GET", path)).text
        assert SECRET_PATH not in told
        assert HOST in told
    record = (await admin.ask("GET", "/api/v1/audit?target=job:report")).json()["items"][0]
    assert record["after"]["overrides"]["ping"]["failure"] == ADDRESS
    for wrong in ([ADDRESS], {"sucess": ADDRESS}, {"success": [ADDRESS]}, f"{ADDRESS} ", ADDRESS * 100):
        refused = await operator.ask("PUT", "/api/v1/jobs/report", {"ping": wrong})
        assert refused.status_code == 400
        assert SECRET_PATH not in refused.text
        assert refused.json()["error"]["details"][0]["value"] == "(not shown)"
    await app.close()
