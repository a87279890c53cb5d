"""Incoming hooks: signed deliveries trigger a job, once each; everything else is refused without a trace."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from mainspring import InvalidValue, JobContext, Mainspring
from mainspring.core.commands import hooks as hooks_module
from mainspring.core.commands.hooks import HookNotFound
from mainspring.core.commands.idempotency import ABANDONED_AFTER
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.webhooks import new_secret, public_key, sign
from tests.api.access_support import settings as security
from tests.api.client import Client, client_of
from tests.support import Nodes

pytestmark = pytest.mark.req("WHK-2")

EVENT = {"type": "invoice.paid", "timestamp": "2026-03-01T12:00:00Z", "data": {"amount": 12}}
BODY = json.dumps(EVENT)
TEXT_SECRET = "a secret of sixteen signs"


def application(nodes: Nodes, **settings: Any) -> Mainspring:
    app = nodes.app(**settings)

    @app.job("all")
    def all_of_it(ctx: JobContext, payload: dict[str, Any], event: str, delivery: str, dry: bool = False) -> None: ...

    @app.job("plain")
    def plain(payload: Any) -> None: ...

    @app.job("typed")
    def typed(payload: dict[str, int]) -> None: ...

    @app.job("single", overlap="skip")
    def single(payload: Any) -> None: ...

    app.job("anything")(lambda **given: None)
    app.job("nothing")(lambda: None)

    @app.job("more")
    def more(payload: Any, colour: str) -> None: ...

    return app


async def send(client: Client, name: str, headers: dict[str, str], body: str = BODY) -> httpx.Response:
    return await client.ask(
        "POST", f"/hooks/{name}", content=body, headers={"content-type": "application/json"} | headers
    )


def by_github(body: str = BODY, delivery: str = "72d3162e", secret: str = TEXT_SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Delivery": delivery, "X-GitHub-Event": "push"}


def by_stripe(body: str, secret: str = TEXT_SECRET) -> dict[str, str]:
    at = int(time.time())
    digest = hmac.new(secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={at},v1={digest}"}


async def test_a_signed_delivery_triggers_the_job_once(nodes: Nodes) -> None:
    app = application(nodes)
    async with client_of(app) as client:
        made = await client.put("/api/v1/hooks/billing", {"job": "all"})
        secret = made.pop("secret")
        assert secret.startswith("whsec_")
        first = await send(client, "billing", sign(BODY, secret, id="msg_1"))
        assert (first.status_code, first.json()["status"]) == (202, "pending")
        again = await send(
            client, "billing", sign(BODY, secret, id="msg_1", now=datetime.now(UTC) + timedelta(seconds=9))
        )
        assert (again.status_code, again.json()) == (202, first.json())
        assert again.headers["idempotent-replay"] == "true"
        other = await send(client, "billing", sign(BODY, secret, id="msg_2"))
        assert other.json()["execution_id"] != first.json()["execution_id"] == first.headers["x-execution-id"]
        execution = await app.get(first.json()["execution_id"])
        assert execution.params == {"payload": EVENT, "event": "invoice.paid", "delivery": "msg_1"}
        assert (execution.trigger, execution.triggered_by) == ("api", "hook:billing")
        assert len((await client.get("/api/v1/executions?job=all"))["items"]) == 2
        assert (await client.get("/api/v1/hooks"))["items"] == [made] == [await client.get("/api/v1/hooks/billing")]
        audit = (await client.get("/api/v1/audit?target=hook:billing"))["items"]
        assert [(each["action"], each["actor"]) for each in audit] == [("set", "loopback")]
        everything = json.dumps([await client.get("/api/v1/audit"), await client.get("/api/v1/hooks")])
        assert secret not in everything
    await app.close()


async def test_the_same_delivery_many_times_at_once_triggers_once(nodes: Nodes) -> None:
    first, second = application(nodes), application(nodes)
    secret = (await first.hooks.set("billing", "plain")).secret.reveal()
    headers = sign(BODY, secret, id="msg_1")
    async with client_of(first) as one, client_of(second) as other:
        answers = await asyncio.gather(*(send(client, "billing", headers) for client in (one, other) * 4))
        accepted = {answer.json()["execution_id"] for answer in answers if answer.status_code == 202}
        assert {answer.status_code for answer in answers} <= {202, 409}
        assert accepted == {(await send(other, "billing", headers)).json()["execution_id"]}
        assert len((await one.get("/api/v1/executions?job=plain"))["items"]) == 1
    await first.close()
    await second.close()


async def test_a_server_without_the_code_passes_what_the_handler_took(nodes: Nodes) -> None:
    app, without_code = application(nodes), nodes.app(prune=False)
    await app.jobs()
    first = (await without_code.hooks.set("first", "all")).secret.reveal()  # by somebody without the code, too
    second = (await app.hooks.set("second", "all")).secret.reveal()
    everything = {"payload", "event", "delivery"}
    for server, hook, secret, passed in (
        (app, "first", first, everything),
        (app, "second", second, everything),
        (without_code, "second", second, everything),
        (without_code, "first", first, {"payload"}),
    ):
        async with client_of(server) as client:
            made = await send(client, hook, sign(BODY, secret, id=f"{hook}-{id(server)}"))
            assert (await app.get(made.json()["execution_id"])).params.keys() == passed
    await app.close()
    await without_code.close()


async def test_github_and_stripe(memory_nodes: Nodes) -> None:
    app = application(memory_nodes)
    async with client_of(app) as client:
        await client.put("/api/v1/hooks/github", {"job": "anything", "style": "github", "secret": TEXT_SECRET})
        assert (await send(client, "github", by_github())).status_code == 202
        assert (await send(client, "github", by_github())).headers["idempotent-replay"] == "true"
        assert (await send(client, "github", by_github(delivery="other"))).status_code == 202
        assert (await send(client, "github", by_github(secret="another secret!!"))).status_code == 401
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert (await send(client, "github", by_github() | form)).status_code == 415

        unsigned = await client.refused(400, "PUT", "/api/v1/hooks/stripe", {"job": "plain", "style": "stripe"})
        assert "Stripe shows" in unsigned["message"]
        await client.put("/api/v1/hooks/stripe", {"job": "plain", "style": "stripe", "secret": TEXT_SECRET})
        body = json.dumps({"id": "evt_1", "type": "charge.failed"})
        first, again = [await send(client, "stripe", by_stripe(body), body) for _ in range(2)]
        assert (first.status_code, first.json()) == (202, again.json())
        assert (await app.get(first.json()["execution_id"])).params == {"payload": json.loads(body)}
        found = (await client.get("/api/v1/executions?job=anything"))["items"]
        assert [each["params"]["event"] for each in found] == ["push", "push"]
    await app.close()


@pytest.mark.req("SEC-4")
async def test_what_is_refused(memory_nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    app = application(memory_nodes, failed_logins_per_minute=3)
    secret = (await app.hooks.set("billing", "plain")).secret.reveal()
    second = (await app.hooks.set("typed", "typed")).secret.reveal()
    async with client_of(app) as client:
        good = sign(BODY, secret, id="msg_1")
        assert (await send(client, "unknown", good)).status_code == 404
        assert (await send(client, "billing", {})).status_code == 401  # not a guess: it is not counted
        old = sign(BODY, secret, id="msg_1", now=datetime.now(UTC) - timedelta(minutes=6))
        for headers, reason in (
            (old, "in the past"),
            (good | {"webhook-id": "msg_2"}, "no signature"),
            (sign(BODY, new_secret(), id="msg_1"), "no signature"),
        ):
            refused = await send(client, "billing", headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_signature")
            assert reason in refused.json()["error"]["message"]
        blocked = await send(client, "billing", good)
        assert (blocked.status_code, blocked.json()["error"]["code"]) == (429, "too_many_failed_logins")
        assert int(blocked.headers["retry-after"]) <= 60
        mismatch = await send(client, "typed", sign(BODY, second, id="m"))  # other hooks go on
        assert (mismatch.status_code, "payload" in mismatch.text) == (400, True)
        fixed = json.dumps({"a": 1})
        assert (
            await send(client, "typed", sign(fixed, second, id="m"), fixed)
        ).status_code == 202  # no answer was kept
        broken = "no json"
        assert (await send(client, "typed", sign(broken, second, id="n"), broken)).status_code == 400
        crowded = json.dumps(list(range(20_000)))
        refused = await send(client, "typed", sign(crowded, second, id="c"), crowded)
        assert (refused.status_code, "at most 12,000 values" in refused.text) == (400, True)
        large = json.dumps("x" * 1_100_000)
        assert (await send(client, "typed", sign(large, second, id="l"), large)).status_code == 413
        await app.hooks.set("typed", "typed", enabled=False)
        disabled = await send(client, "typed", sign(fixed, second, id="d"), fixed)
        assert (disabled.status_code, "it is disabled" in disabled.text) == (409, True)
        assert (await client.get("/api/v1/executions?job=plain"))["items"] == []
    assert secret not in caplog.text
    await app.close()


async def test_a_job_that_is_running_takes_the_delivery_as_skipped(memory_nodes: Nodes) -> None:
    app = application(memory_nodes)
    secret = (await app.hooks.set("one", "single")).secret.reveal()
    async with client_of(app) as client:
        statuses = [(await send(client, "one", sign(BODY, secret, id=id))).json()["status"] for id in ("a", "b", "b")]
        assert statuses == ["pending", "skipped", "skipped"]
        assert len((await client.get("/api/v1/executions?job=single"))["items"]) == 2
        await app.cancel("single")
        assert (await send(client, "one", sign(BODY, secret, id="c"))).status_code == 409
        await app.reactivate("single")
        assert (await send(client, "one", sign(BODY, secret, id="c"))).status_code == 202
    await app.close()


async def test_a_crash_between_trigger_and_answer_runs_the_job_once(memory_nodes: Nodes) -> None:
    app = application(memory_nodes)
    secret = (await app.hooks.set("billing", "plain")).secret.reveal()
    store = memory_nodes.store if hasattr(memory_nodes, "store") else (await app._runtime.engine()).store
    async with client_of(app) as client:
        first = (await send(client, "billing", sign(BODY, secret, id="a"))).json()
        (entry,) = await store.list_entries("delivery", "")
        stored = msgspec.json.decode(entry.body)
        del stored["answer"]
        await _put(store, entry, stored)
        assert (
            await send(client, "billing", sign(BODY, secret, id="a"))
        ).status_code == 409  # the first may be at work
        (entry,) = await store.list_entries("delivery", "")
        await _put(store, entry, stored | {"since": stored["since"] - ABANDONED_AFTER})
        assert (await send(client, "billing", sign(BODY, secret, id="a"))).json() == first
        assert len((await client.get("/api/v1/executions?job=plain"))["items"]) == 1
    await app.close()


async def _put(store: Any, entry: Entry, body: dict[str, Any]) -> None:
    changed = Entry(kind="delivery", key=entry.key, body=msgspec.json.encode(body).decode())
    assert (await store.write_entries([EntryWrite(entry=changed, seen_version=entry.version)])) == [True]


async def test_secrets_are_rotated_and_shown_once(nodes: Nodes) -> None:
    app = application(nodes)
    async with client_of(app) as client:
        key = {"Idempotency-Key": "k1"}
        first = (await client.put("/api/v1/hooks/billing", {"job": "plain"}, headers=key))["secret"]
        assert (await client.put("/api/v1/hooks/billing", {"job": "plain"}, headers=key))["secret"] is None
        assert (await client.put("/api/v1/hooks/billing", {"job": "plain"}))["secret"] is None  # it keeps the first
        second = await client.post("/api/v1/hooks/billing/rotate", {"overlap": "1h"})
        assert [each["expires_at"] is None for each in second["secrets"]] == [True, False]
        for secret, id in ((first, "a"), (second["secret"], "b")):
            assert (await send(client, "billing", sign(BODY, secret, id=id))).status_code == 202
        third = await client.post("/api/v1/hooks/billing/rotate", {"overlap": 0})
        assert len(third["secrets"]) == 1
        for secret, id, status in ((first, "c", 401), (second["secret"], "d", 401), (third["secret"], "e", 202)):
            assert (await send(client, "billing", sign(BODY, secret, id=id))).status_code == status
        private = new_secret("v1a")
        await client.put("/api/v1/hooks/billing", {"job": "plain", "secret": public_key(private)})
        assert (await send(client, "billing", sign(BODY, private, id="f"))).status_code == 202
        await client.ask("DELETE", "/api/v1/hooks/billing")
        assert (await send(client, "billing", sign(BODY, private, id="g"))).status_code == 404
        actions = [each["action"] for each in (await client.get("/api/v1/audit?target=hook:billing"))["items"]]
        assert actions == ["remove", "set", "rotate_secret", "rotate_secret", "set", "set"]
    await app.close()


async def test_what_cannot_be_set(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    app = application(memory_nodes)
    async with client_of(app) as client:
        for body, reason in (
            ({"job": "nothing"}, "takes the parameter payload"),
            ({"job": "more"}, "it needs colour"),
            ({"job": "unknown"}, "no job named 'unknown'"),
            ({"job": "plain", "style": "paypal"}, "'standard'"),
            ({"job": "plain", "secret": "whsec_c2hvcnQ="}, "24 to 64 random bytes"),
            ({"job": "plain", "secret": new_secret("v1a")}, "whpk_"),
            ({"job": "plain", "secret": "x" * 600}, "at most 500"),
        ):
            error = await client.refused(400, "PUT", "/api/v1/hooks/new", body)
            assert reason in error["message"], error
            assert body.get("secret", "-none-") not in json.dumps(error)
        await client.refused(400, "PUT", "/api/v1/hooks/a b", {"job": "plain"})
        monkeypatch.setattr(hooks_module, "MOST", 1)
        await client.put("/api/v1/hooks/one", {"job": "plain"})
        await client.refused(409, "PUT", "/api/v1/hooks/two", {"job": "plain"})
        await client.put("/api/v1/hooks/one", {"job": "all"})
        await client.refused(404, "POST", "/api/v1/hooks/two/rotate")
        await client.refused(404, "DELETE", "/api/v1/hooks/two")
    with pytest.raises(HookNotFound, match="did you mean 'one'"):
        await app.hooks.get("onee")
    with pytest.raises(InvalidValue, match="30 days"):
        await app.hooks.rotate_secret("one", overlap="31d")
    await app.close()


@pytest.mark.req("SEC-1")
async def test_the_addresses_that_may_send(memory_nodes: Nodes) -> None:
    for given, status in (
        ({"hooks_allow": "192.0.2.0/24"}, 403),
        ({"hooks_allow": "127.0.0.1"}, 202),
        ({"api_allow": "192.0.2.0/24"}, 403),
        ({"api_allow": "192.0.2.0/24", "hooks_allow": "127.0.0.1"}, 202),
    ):
        app = application(memory_nodes, **given)
        secret = (await app.hooks.set("billing", "plain", secret=None)).secret
        text = new_secret() if secret is None else secret.reveal()
        await app.hooks.set("billing", "plain", secret=text)
        async with client_of(app) as client:
            assert (await send(client, "billing", sign(BODY, text, id="a"))).status_code == status
        await app.close()
    assert security(hooks_allow="10.0.0.0/8").hooks_allow == ("10.0.0.0/8",)
