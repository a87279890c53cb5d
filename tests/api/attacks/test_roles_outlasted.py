"""An operator prepares while a handler asks for nothing, and comes back after its own job was hardened to admin.

What was prepared: a job, a template, a backfill, a failed execution, a calendar, kept answers. All of it asks for admin
from then on, also in a process that does not have the code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from mainspring import Mainspring
from mainspring.core.commands.bulk import EXECUTION_COMMANDS, JOB_COMMANDS
from mainspring.core.rules.job_roles import role_for
from mainspring.model.job import Job
from mainspring.model.values.access import HIDDEN, Role
from mainspring.server.api import create_api
from tests.api.access_support import SECRET, STRANGER, Answer, ask, signed
from tests.api.test_access_jobs import doors
from tests.support import Nodes, ended

pytestmark = pytest.mark.req("SEC-2")

MESSAGES = {f"job '{name}' needs the role admin; jwt:ada has operator" for name in ("mine", "close")}
SETTINGS: dict[str, Any] = {"jwt_secret": SECRET, "sys_allow": STRANGER}


async def come_in(api: FastAPI, role: str, method: str, path: str, body: Any = None, **more: Any) -> Answer:
    return await ask(api, path, method, peer=STRANGER, bearer=signed(role=role), body=body, **more)


def key(path: str) -> list[tuple[str, str]]:
    return [("idempotency-key", path)]


def close(year: int = 2026, key: str = "") -> None:
    raise ValueError("the year is not over")


def release(nodes: Nodes, **hardened: Any) -> Mainspring:
    """A process with the code, in which a job of the handler is declared."""
    app = nodes.app(**SETTINGS)
    app.calendars.declare("bank", ["12-25"])
    app.job("close", max_attempts=1, **hardened)(close)
    app.job("mild")(lambda year=2026, key="": None)
    return app


@asynccontextmanager
async def prepared(nodes: Nodes, **hardened: Any) -> AsyncIterator[tuple[FastAPI, Mainspring, dict[str, str]]]:
    """The interface of a process without the code, after the release that hardened the handler's own job."""
    old = release(nodes)
    async with old:
        api = create_api(old._runtime)
        body = {
            **{"name": "mine", "handler": "close", "interval_minutes": 60, "trigger_role": "operator"},
            **{"window": "yesterday", "hours": {"closed": ["bank"]}, "max_retries": 0},
        }
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs", body)).status == 201
        failed = await ended(old, await old.trigger("mine"))
        backfill = await old.backfill("mine", "2020-06-01T00:00:00Z", "2023-06-01T00:00:00Z", pace="1h")
        await old.templates.create("closing", "close")
        for path, said in ANSWERED.items():
            answer = await come_in(api, "operator", "POST", path, said, headers=key(path))
            assert answer.status < 300, (path, answer)
    ids = dict.fromkeys(("/api/v1/jobs/", "/_sys/job/"), "mine")
    ids |= {"/api/v1/executions/": failed.id, "/api/v1/backfills/": backfill.id, "/jobs/": "close"}
    ids |= {"/api/v1/templates/": "closing", "/api/v1/calendars/": "bank"}
    async with release(nodes, **hardened) as new, nodes.client(**SETTINGS) as without_code:
        await new.pause("mine", by="ops")
        yield create_api(without_code._runtime), without_code, ids


ANSWERED: dict[str, Any] = {
    "/api/v1/jobs": {"name": "kept", "handler": "close", "params": {"year": 2025, "key": "k-4711"}},
    "/api/v1/jobs/mine/trigger": {"params": {"key": "k-4711"}},
    "/api/v1/templates/closing/jobs": {"name": "copied", "params": {"key": "k-4711"}},
    "/api/v1/bulk/jobs": {"command": "pause", "ids": ["copied"]},
}
"""Requests of the operator whose answers are kept."""


async def test_jobs_made_before_ask_for_the_role_at_every_door(memory_nodes: Nodes) -> None:
    async with prepared(memory_nodes, trigger_role="admin") as (api, _, ids):
        asked = doors(api, ids)
        assert len(asked) > 20
        for method, path, body in asked:
            refused = await come_in(api, "operator", method, path, body)
            assert (refused.status, refused.code) == (403, "role_too_low"), (method, path, refused)
            assert refused.message in MESSAGES, (method, path, refused.message)
        shown = await come_in(api, "viewer", "GET", "/api/v1/jobs/mine")
        assert shown.body["policy"]["trigger_role"] == "admin"
        assert (await come_in(api, "admin", "POST", "/api/v1/jobs/mine/resume", {})).status == 200


async def test_bulk_actions_refuse_them_one_by_one(memory_nodes: Nodes) -> None:
    async with prepared(memory_nodes, trigger_role="admin") as (api, _, ids):
        for kind, commands in (("jobs", JOB_COMMANDS), ("executions", EXECUTION_COMMANDS)):
            for command in commands:
                body = {"command": command, "ids": [ids[f"/api/v1/{kind}/"]]}
                answer = await come_in(api, "operator", "POST", f"/api/v1/bulk/{kind}", body)
                assert (answer.status, answer.body["done"]) == (200, 0), (body, answer)
                assert {each["error"]["code"] for each in answer.body["results"]} == {"role_too_low"}, (body, answer)
                wanted = {"target": kind, "action": command, "ids": body["ids"], "dry_run": True}
                foreseen = await come_in(api, "operator", "POST", "/api/v1/bulk", wanted)
                assert "needs the role admin" in str(foreseen.body), foreseen


async def test_executions_of_a_removed_job_are_guarded_by_the_handlers_own(memory_nodes: Nodes) -> None:
    async with prepared(memory_nodes, trigger_role="admin") as (api, app, ids):
        await app.remove_job("mine", force=True)
        failed = ids["/api/v1/executions/"]
        refused = await come_in(api, "operator", "POST", f"/api/v1/executions/{failed}/cancel", {})
        assert (refused.status, refused.code) == (403, "role_too_low"), refused
        body = {"command": "cancel", "ids": [failed]}
        answer = await come_in(api, "operator", "POST", "/api/v1/bulk/executions", body)
        assert {each["error"]["code"] for each in answer.body["results"]} == {"role_too_low"}


async def test_the_role_outlives_the_handlers_own_job_that_somebody_removed(memory_nodes: Nodes) -> None:
    async with release(memory_nodes) as app:
        body = {"name": "mine", "handler": "close", "interval_minutes": 60, "max_retries": 0}
        assert (await come_in(create_api(app._runtime), "operator", "POST", "/api/v1/jobs", body)).status == 201
        await app.templates.create("closing", "close")
        failed = await ended(app, await app.trigger("mine"))
    async with (
        release(memory_nodes, trigger_role="admin", secret=("key",)) as app,
        memory_nodes.client(**SETTINGS) as other,
    ):
        await app.remove_job("close", force=True)
        new = {"handler": "close", "params": {"key": "k-4711"}}
        asked: list[tuple[str, Any]] = [
            ("/api/v1/jobs", new),
            ("/api/v1/jobs", new | {"name": "close"}),
            ("/api/v1/templates/closing/jobs", {}),
            ("/api/v1/templates", {"name": "again", "handler": "close"}),
            ("/api/v1/jobs/mine/trigger", {}),
            ("/api/v1/handlers/close/pause", {}),
            (f"/api/v1/executions/{failed.id}/retry", {}),
        ]
        for path, body in asked:
            refused = await come_in(create_api(app._runtime), "operator", "POST", path, body)
            assert (refused.status, refused.code) == (403, "role_too_low"), (path, refused)
        api = create_api(app._runtime)
        bulk = {"target": "executions", "action": "retry", "ids": [failed.id], "dry_run": True}
        assert "needs the role admin" in str((await come_in(api, "operator", "POST", "/api/v1/bulk", bulk)).body)
        without_code = await come_in(create_api(other._runtime), "operator", "POST", "/api/v1/jobs", new)
        assert (without_code.status, without_code.code) == (403, "role_too_low"), without_code
        squatter = {"name": "close", "handler": "mild", "interval_minutes": 60}
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs", squatter)).status == 201
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs", new)).status == 403
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs/mine/trigger", {})).status == 403
        await app.remove_job("close", force=True)
        made = await come_in(api, "admin", "POST", "/api/v1/jobs", new | {"name": "close", "interval_minutes": 60})
        assert (made.status, made.body["policy"]["trigger_role"], made.body["params"]["key"]) == (201, "admin", HIDDEN)


async def test_templates_ask_for_the_role_of_their_handler(memory_nodes: Nodes) -> None:
    made = {"name": "mine", "handler": "close", "params": {"key": "k-4711"}}
    async with release(memory_nodes) as app:
        await app.templates.create("open", "mild")
        answer = await come_in(
            create_api(app._runtime), "operator", "POST", "/api/v1/templates", made, headers=key("k")
        )
        assert answer.status == 201
    async with release(memory_nodes, trigger_role="admin", secret=("key",)) as app:
        api = create_api(app._runtime)
        asked: list[tuple[str, str, Any]] = [
            ("POST", "/api/v1/templates", made | {"name": "new"}),
            ("PUT", "/api/v1/templates/mine", {"params": {"year": 1999}}),
            ("PUT", "/api/v1/templates/mine", {"handler": "mild"}),
            ("PUT", "/api/v1/templates/open", {"handler": "close"}),
            ("DELETE", "/api/v1/templates/mine", None),
        ]
        for method, path, body in asked:
            refused = await come_in(api, "operator", method, path, body)
            assert (refused.status, refused.code) == (403, "role_too_low"), (method, path, refused)
        refused = await come_in(api, "operator", "POST", "/api/v1/templates", made, headers=key("k"))
        assert (refused.status, "k-4711" in str(refused.body)) == (403, False), "a kept answer is judged again"
        repeated = await come_in(api, "admin", "POST", "/api/v1/templates", made, headers=key("k"))
        assert repeated.body["params"]["key"] == HIDDEN
        assert (await come_in(api, "admin", "DELETE", "/api/v1/templates/mine")).status == 204


async def test_overrides_raise_the_role_and_never_lower_it(memory_nodes: Nodes) -> None:
    async with prepared(memory_nodes) as (api, app, _):
        await app.update_job("close", trigger_role="admin")  # the override of the handler's own job counts as well
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs/mine/resume", {})).status == 403
        await app.revert_job("close")
        assert (await come_in(api, "operator", "POST", "/api/v1/jobs/mine/resume", {})).status == 200
    async with prepared(Nodes("memory", memory_nodes.folder), trigger_role="admin") as (api, app, _):
        for name in ("close", "mine"):
            for lower in ("operator", None):
                answer = await come_in(api, "admin", "PUT", f"/api/v1/jobs/{name}", {"trigger_role": lower})
                assert (answer.status, answer.body["policy"]["trigger_role"]) == (200, "admin"), (name, lower)
                refused = await come_in(api, "operator", "POST", f"/api/v1/jobs/{name}/trigger", {})
                assert (refused.status, refused.code) == (403, "role_too_low"), (name, lower)


def test_the_rule_takes_the_highest() -> None:
    def job(name: str, declared: str | None, override: str | None) -> Job:
        def text(role: str | None) -> str:
            return "null" if role is None else f'"{role}"'

        return Job(
            name=name,
            id=name,
            declared=f'{{"handler": "close", "trigger_role": {text(declared)}}}',
            overrides=f'{{"trigger_role": {text(override)}}}',
        )

    roles = (None, "operator", "admin")
    for demands in ((a, b, c, d) for a in roles for b in roles for c in roles for d in roles):
        expected = Role.ADMIN if "admin" in demands else Role.OPERATOR
        assert role_for(job("mine", *demands[:2]), job("close", *demands[2:])) is expected, demands
    assert role_for(job("mine", None, "emperor"), None) is Role.ADMIN  # a role of a newer release


# --- kept answers -----------------------------------------------------------------------------------------------


async def test_a_kept_answer_is_repeated_only_to_who_may_still_see_it(memory_nodes: Nodes) -> None:
    async with prepared(memory_nodes, trigger_role="admin") as (api, *_):
        for path, body in ANSWERED.items():
            for role in ("viewer", "operator"):
                refused = await come_in(api, role, "POST", path, body, headers=key(path))
                assert (refused.status, refused.code) == (403, "role_too_low"), (path, role, refused)
                assert "k-4711" not in str(refused.body)
            repeated = await come_in(api, "admin", "POST", path, body, headers=key(path))
            assert repeated.headers["idempotent-replay"] == "true"


async def test_a_kept_answer_masks_what_is_secret_now(memory_nodes: Nodes) -> None:
    async with prepared(memory_nodes, secret=("key",)) as (api, *_):
        for path, body in ANSWERED.items():
            repeated = await come_in(api, "operator", "POST", path, body, headers=key(path))
            assert repeated.headers["idempotent-replay"] == "true"
            assert "k-4711" not in str(repeated.body), path
            assert (HIDDEN in str(repeated.body)) is ("params" in body), path


async def test_a_role_that_is_too_low_is_not_kept(memory_nodes: Nodes) -> None:
    async with prepared(memory_nodes, trigger_role="admin") as (api, *_):
        answers = [
            await come_in(api, role, "POST", "/api/v1/jobs/mine/resume", {}, headers=key("k-2"))
            for role in ("operator", "admin")
        ]
        assert [each.status for each in answers] == [403, 200]
