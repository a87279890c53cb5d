"""Who may do what through the real interface: roles, jobs that ask for a higher one, names in the audit."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mainspring import Mainspring, every
from tests.api.access_support import SECRET, STRANGER, signed
from tests.support import Nodes

pytestmark = pytest.mark.req("SEC-2")


class Someone:
    """A person with a role, far away."""

    def __init__(self, app: Mainspring, role: str, bearer: str | None = None) -> None:
        self._app, self._headers = app, {"Authorization": f"Bearer {bearer or signed(role=role)}"}

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        transport = httpx.ASGITransport(self._app.asgi(), client=(STRANGER, 4_711))
        async with httpx.AsyncClient(transport=transport, base_url="http://jobs.example.com") as http:
            return await http.request(method, path, json=body, headers=self._headers | headers)


@pytest.mark.req("SEC-3")
async def test_the_audit_names_who_it_was(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(jwt_secret=SECRET)
    app.job("job", trigger=every(hours=1))(lambda: None)
    operator, viewer = Someone(app, "operator"), Someone(app, "viewer")
    assert (await viewer.ask("POST", "/api/v1/jobs/job/pause")).status_code == 403
    paused = await operator.ask("POST", "/api/v1/jobs/job/pause")
    assert paused.json()["paused_by"] == "jwt:ada"
    (record,) = (await viewer.ask("GET", "/api/v1/audit")).json()["items"]
    assert (record["actor"], record["request_id"]) == ("jwt:ada", paused.headers["x-request-id"])
    await app.close()


async def test_another_job_of_its_handler_is_no_way_around_what_a_job_asks_for(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(jwt_secret=SECRET)
    app.job("payout", trigger=every(hours=1), trigger_role="admin")(lambda: None)
    operator, admin = Someone(app, "operator"), Someone(app, "admin")
    for role in ({}, {"trigger_role": "operator"}, {"trigger_role": "admin"}):
        body = {"name": "mine", "handler": "payout", **role}
        answer = await operator.ask("POST", "/api/v1/jobs", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "role_too_low"), role
    assert await app.executions("payout") == []
    made = await admin.ask("POST", "/api/v1/jobs", {"name": "mine", "handler": "payout", "interval_minutes": 5})
    assert (made.status_code, made.json()["policy"]["trigger_role"]) == (201, "admin")
    assert (await operator.ask("POST", "/api/v1/jobs/mine/trigger")).status_code == 403
    assert (await admin.ask("PUT", "/api/v1/jobs/mine", {"trigger_role": None})).status_code == 200
    assert (await operator.ask("POST", "/api/v1/jobs/mine/trigger")).status_code == 403
    await app.close()


@pytest.mark.req("API-3")
async def test_a_new_job_runs_where_its_handlers_own_job_does(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(jwt_secret=SECRET)
    app.job("mail", queue="mail", timeout="1m")(lambda: None)
    operator = Someone(app, "operator")
    made = (await operator.ask("POST", "/api/v1/jobs", {"handler": "mail", "interval_minutes": 5})).json()
    assert (made["queue"], made["policy"]["timeout"]) == ("mail", 60.0)
    own = {"handler": "mail", "interval_minutes": 5, "queue": "slow", "timeout": 5.0}
    assert (await operator.ask("POST", "/api/v1/jobs", own)).json()["queue"] == "slow"
    await app.close()


async def test_a_calendar_is_as_well_guarded_as_the_jobs_that_name_it(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(jwt_secret=SECRET)
    app.calendars.declare("bank", ["12-25"])
    app.calendars.declare("office", ["12-25"])
    app.job("payout", cron="0 3 * * *", trigger_role="admin", hours={"closed": ["bank"]})(lambda: None)
    app.job("report", cron="0 3 * * *", hours={"closed": ["office"]})(lambda: None)
    operator, admin = Someone(app, "operator"), Someone(app, "admin")
    body = {"entries": ["12-24"]}
    doors: list[tuple[str, str, Any]] = [("PUT", "", body), ("POST", "/revert", None)]
    for method, path, said in doors:
        refused = await operator.ask(method, f"/api/v1/calendars/bank{path}", said)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "role_too_low")
        assert "payout" in refused.json()["error"]["message"]
        assert (await operator.ask(method, f"/api/v1/calendars/office{path}", said)).status_code == 200
        assert (await admin.ask(method, f"/api/v1/calendars/bank{path}", said)).status_code == 200
    assert [each.action for each in await app.audits("calendar:bank")] == ["revert_calendar", "set_calendar"]
    await app.close()
