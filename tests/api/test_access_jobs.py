"""A job that asks for a higher role, through every door of the real interface by which jobs are steered.

The doors are read from the OpenAPI document: a route that is added is tried here, or has to be named as one that
steers no job.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI

from mainspring import JobContext, Mainspring, State
from mainspring.core.commands.bulk import EXECUTION_COMMANDS, JOB_COMMANDS
from mainspring.core.views.job import job_of
from mainspring.core.views.records import AuditRecord
from mainspring.model.job import Job
from mainspring.server.api import create_api
from tests.api.access_support import SECRET, STRANGER, Answer, ask, signed
from tests.support import ended

pytestmark = pytest.mark.req("SEC-2")

MESSAGE = "job 'close' needs the role admin; jwt:ada has operator"
AT = "2090-01-01T00:00:00Z"
BODIES: dict[str, Any] = {
    "/occurrences/skip": {"at": AT},
    "/occurrences/restore": {"at": AT},
    "/occurrences/move": {"at": AT, "to": "2090-01-02T00:00:00Z"},
    "POST /api/v1/backfills": {"job": "close"},
    "POST /api/v1/jobs": {"name": "mine", "handler": "close", "trigger_role": "operator"},
    "POST /api/v1/templates": {"name": "again", "handler": "close"},
    "POST /api/v1/templates/{name}/jobs": {"name": "mine", "trigger_role": "operator"},
    "PUT /api/v1/calendars/{name}": {"entries": ["12-24"]},
}
STEERS_NO_JOB = {
    "DELETE /api/v1/calendars/{name}",  # refused to everybody while a job names it
    *("POST /api/v1/bulk/jobs", "POST /api/v1/bulk/executions"),  # answered one by one, and tested so
    *("POST /api/v1/bulk", "POST /api/v1/bulk/{id}/abort"),  # the items are refused one by one, and tested so
}
OTHER_THINGS = ("/api/v1/queues/", "/api/v1/handlers/", "/api/v1/workers/", "/api/v1/errors/")
"""Steered as a whole, whatever jobs they have to do with."""


@asynccontextmanager
async def interface(*others: str) -> AsyncIterator[tuple[FastAPI, Mainspring, dict[str, str]]]:
    """With a job for admins, and the ids of what belongs to it, by what stands before them in a path."""
    app = Mainspring("memory://", jwt_secret=SECRET, sys_allow=STRANGER, poll_interval=60)
    app.calendars.declare("bank", ["12-25"])

    policy: Any = {"trigger_role": "admin", "max_attempts": 1, "window": "yesterday", "hours": {"closed": ["bank"]}}

    @app.job("close", cron="@yearly", **policy)
    async def close(ctx: JobContext) -> None:
        raise ValueError("the year is not over")

    for name in others:
        app.job(name, cron="@yearly")(lambda: None)
    async with app:
        failed = await ended(app, await app.trigger("close"))
        assert failed.state is State.FAILED
        backfill = await app.backfill("close", "2020-06-01T00:00:00Z", "2023-06-01T00:00:00Z", pace="1h")
        await app.templates.create("closing", "close")
        ids = dict.fromkeys(("/api/v1/jobs/", "/_sys/job/", "/jobs/"), "close")
        ids |= {"/api/v1/executions/": failed.id, "/api/v1/backfills/": backfill.id}
        ids |= {"/api/v1/templates/": "closing", "/api/v1/calendars/": "bank"}
        yield create_api(app._runtime), app, ids


def doors(api: FastAPI, ids: dict[str, str]) -> list[tuple[str, str, Any]]:
    """What operators may ask for, of this job and what belongs to it; removal comes last."""
    found = []
    for path, item in api.openapi()["paths"].items():
        for method, operation in item.items():
            door = f"{method.upper()} {path}"
            no_job = door in STEERS_NO_JOB or path.startswith(OTHER_THINGS)
            if operation["x-required-role"] != "operator" or no_job:
                continue
            before, brace, rest = path.partition("{")
            address = f"{before}{ids[before]}{rest.partition('}')[2]}" if brace else path
            body = next((body for end, body in BODIES.items() if door.endswith(end)), {})
            found.append((method.upper(), address, None if method == "delete" else body))
    return sorted(found, key=lambda each: each[0] == "DELETE")


async def kept(app: Mainspring) -> tuple[Job, list[AuditRecord]]:
    """What a refused request must not change. Runs that have ended get their numbers meanwhile; that a bulk action
    began and ended is recorded, whatever became of its items."""
    job = job_of(await app.job_view("close"))
    audits = [each for each in await app.audits() if not each.target.startswith("bulk:")]
    return msgspec.structs.replace(job, last_number=0), audits


async def come_in(api: FastAPI, role: str, method: str, path: str, body: Any) -> Answer:
    return await ask(api, path, method, peer=STRANGER, bearer=signed(role=role), body=body)


async def test_who_lacks_the_role_finds_every_door_closed() -> None:
    async with interface() as (api, app, ids):
        before = await kept(app)
        asked = doors(api, ids)
        assert len(asked) > 20
        for method, path, body in asked:
            refused = await come_in(api, "operator", method, path, body)
            assert (refused.status, refused.code) == (403, "role_too_low"), (method, path, refused)
            assert refused.message == MESSAGE, (method, path)
        assert await kept(app) == before


async def test_who_has_it_finds_them_open() -> None:
    async with interface() as (api, _, ids):
        for method, path, body in doors(api, ids):
            answer = await come_in(api, "admin", method, path, body)
            assert answer.status not in (401, 403), (method, path, answer)


async def test_in_bulk_it_is_refused_one_by_one() -> None:
    async with interface() as (api, app, ids):
        before = await kept(app)
        for kind, commands, wanted in [
            ("jobs", JOB_COMMANDS, {"handler": "close"}),
            ("executions", EXECUTION_COMMANDS, {"job": "close"}),
        ]:
            for command in commands:
                body = {"command": command, "ids": [ids[f"/api/v1/{kind}/"]]}
                answer = await come_in(api, "operator", "POST", f"/api/v1/bulk/{kind}", body)
                assert (answer.status, answer.body["done"]) == (200, 0), (body, answer)
                assert {each["error"]["message"] for each in answer.body["results"]} == {MESSAGE}
                body = {"target": kind, "action": command, "filter": wanted}
                answer = await come_in(api, "operator", "POST", "/api/v1/bulk", body)
                over = await app.bulk.wait(answer.body["id"], timeout=10)
                assert (over.done, set(over.errors)) == (0, {"role_too_low"} if over.total else set()), body
        assert await kept(app) == before


async def test_nobody_gives_a_job_a_role_they_do_not_have() -> None:
    async with interface("plain") as (api, app, _):
        refused = await come_in(api, "operator", "PUT", "/api/v1/jobs/plain", {"trigger_role": "admin"})
        assert (refused.status, refused.message) == (403, MESSAGE.replace("close", "plain"))
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs/plain/pause", {})).status == 200
        await app.update_job("plain", trigger_role="admin")
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs/plain/revert", {})).status == 403
        assert (await come_in(api, "admin", "POST", "/api/v1/jobs/plain/revert", {})).status == 200
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs/plain/resume", {})).status == 200


async def test_reading_asks_for_no_more_than_elsewhere() -> None:
    async with interface() as (api, *_):
        assert (await come_in(api, "viewer", "GET", "/api/v1/jobs/close", None)).status == 200


@pytest.mark.req("SEC-4", "SRC-4")
async def test_a_bulk_action_has_the_role_of_who_started_it() -> None:
    async with interface() as (api, app, ids):
        for body in (
            {"target": "jobs", "action": "pause", "ids": ["close"]},
            {"target": "executions", "action": "retry", "ids": [ids["/api/v1/executions/"]]},
        ):
            answer = await come_in(api, "operator", "POST", "/api/v1/bulk", body)
            over = await app.bulk.wait(answer.body["id"], timeout=10)
            assert (over.refused, over.errors) == (1, {"role_too_low": 1})
            answer = await come_in(api, "admin", "POST", "/api/v1/bulk", body)
            assert (await app.bulk.wait(answer.body["id"], timeout=10)).done == 1
