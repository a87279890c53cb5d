"""Every command leaves one record of who it was. Nobody can write another name into it, or a request id of their own
that would break a log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.attacks.attack import attack
from tests.api.attacks.tables.credentials import jwt
from tests.api.attacks.world import world

pytestmark = pytest.mark.req("SEC-4")

COMMANDS: tuple[tuple[str, Any], ...] = (
    ("POST /api/v1/jobs", {"name": "made", "handler": "greet"}),
    ("PUT /api/v1/jobs/made", {"description": "changed"}),
    ("POST /api/v1/jobs/greet/pause", {}),
    ("POST /api/v1/jobs/greet/resume", {}),
    ("POST /api/v1/jobs/receive/trigger", {"params": {"payload": 1}}),
    ("DELETE /api/v1/jobs/made?force=true", None),
    ("POST /api/v1/templates", {"name": "made", "handler": "greet"}),
    ("PUT /api/v1/calendars/bank", {"entries": ["12-25"]}),
    ("POST /api/v1/queues/default/pause", {}),
    ("POST /api/v1/queues/default/resume", {}),
    ("POST /api/v1/handlers/greet/pause", {}),
    ("PUT /api/v1/hooks/made", {"job": "receive"}),
    ("POST /api/v1/webhooks", {"url": "https://example.com/hook", "id": "made"}),
    ("POST /api/v1/webhooks/made/disable", {}),
    ("POST /api/v1/tokens", {"name": "made", "role": "viewer"}),
)
FORGED = (("x-actor", "root"), ("x-forwarded-user", "root"), ("from", "root@evil.example"), ("x-user", "root"))


async def test_every_command_leaves_one_record_with_its_own_actor() -> None:
    async with world() as target:
        for number, (route, body) in enumerate(COMMANDS):
            name = f"mallory-{number}"
            headers = (("authorization", f"Bearer {jwt(sub=name)}"), ("x-request-id", f"request-{number}"), *FORGED)
            before = len(await target.app.audits(limit=200))
            reply = await target.send(attack("command", route, json=body, headers=headers))
            assert reply.status < 300, (route, reply)
            records = await target.app.audits(limit=200)
            added = records[: len(records) - before]
            assert [(each.actor, each.request_id) for each in added] == [(f"jwt:{name}", f"request-{number}")], route


@pytest.mark.parametrize("field", ["by", "actor", "created_by", "request_id", "user"])
async def test_a_body_names_no_actor(field: str) -> None:
    async with world() as target:
        before = await target.state()
        for route, body in COMMANDS:
            if body is not None:
                reply = await target.send(attack("forged", route, json={**body, field: "root"}, who="admin"))
                assert reply.status in (400, 404), (route, reply)
        assert await target.state() == before


async def test_a_subject_cannot_pass_for_a_token_or_for_this_machine() -> None:
    async with world() as target:
        for subject in ("loopback", "token:test-admin", "system", "scheduler", "mainspring", "hook:billing"):
            headers = (("authorization", f"Bearer {jwt(sub=subject)}"),)
            await target.send(attack("command", "POST /api/v1/jobs/greet/pause", json={}, headers=headers))
            await target.send(attack("command", "POST /api/v1/jobs/greet/resume", json={}, headers=headers))
            actors = {each.actor for each in (await target.app.audits("job:greet"))[:2]}
            assert actors == {f"jwt:{subject}"}
