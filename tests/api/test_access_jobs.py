"""A job that asks for a higher role, through every door of the real interface that runs or changes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from mainspring import JobContext, Mainspring, State
from mainspring.server.api import create_api
from tests.api.access_support import SECRET, STRANGER, Answer, ask, signed
from tests.support import ended

pytestmark = pytest.mark.req("SEC-2")

DOORS: list[tuple[str, str, Any]] = [
    ("POST", "/api/v1/jobs/close/trigger", {}),
    ("POST", "/api/v1/jobs/close/retry", {}),
    ("POST", "/api/v1/jobs/close/revert", {}),
    ("PUT", "/api/v1/jobs/close", {"description": "another"}),
    ("POST", "/jobs/close", {}),
    ("POST", "/_sys/job/close", None),
    ("POST", "/api/v1/executions/{failed}/retry", {}),
    ("DELETE", "/api/v1/jobs/close?force=true", None),
]


@asynccontextmanager
async def interface() -> AsyncIterator[tuple[FastAPI, str]]:
    """With a job for admins, and the id of a failed execution of it."""
    app = Mainspring("memory://", jwt_secret=SECRET, sys_allow=STRANGER, poll_interval=60)

    @app.job("close", trigger_role="admin", cron="@yearly", max_attempts=1)
    async def close(ctx: JobContext) -> None:
        raise ValueError("the year is not over")

    async with app:
        failed = await ended(app, await app.trigger("close"))
        assert failed.state is State.FAILED
        yield create_api(app), failed.id


async def come_in(api: FastAPI, role: str, method: str, path: str, body: Any) -> Answer:
    return await ask(api, path, method, peer=STRANGER, bearer=signed(role=role), body=body)


async def test_who_lacks_the_role_finds_every_door_closed() -> None:
    async with interface() as (api, failed):
        for method, path, body in DOORS:
            refused = await come_in(api, "operator", method, path.format(failed=failed), body)
            assert (refused.status, refused.code) == (403, "role_too_low"), (method, path)
            assert refused.message == "job 'close' needs the role admin; jwt:ada has operator"


async def test_who_has_it_finds_them_open() -> None:
    async with interface() as (api, failed):
        for method, path, body in DOORS:
            answer = await come_in(api, "admin", method, path.format(failed=failed), body)
            assert answer.status not in (401, 403), (method, path, answer)


async def test_in_bulk_it_is_refused_one_by_one() -> None:
    async with interface() as (api, failed):
        for path, ids in [("/api/v1/bulk/jobs", ["close"]), ("/api/v1/bulk/executions", [failed])]:
            answer = await come_in(api, "operator", "POST", path, {"command": "retry", "ids": ids})
            assert (answer.status, answer.body["done"], answer.body["refused"]) == (200, 0, 1)


async def test_reading_asks_for_no_more_than_elsewhere() -> None:
    async with interface() as (api, _):
        assert (await come_in(api, "viewer", "GET", "/api/v1/jobs/close", None)).status == 200
