"""The pages of webhooks: endpoints, their forms, their secrets and what became of each delivery."""

from __future__ import annotations

import re

import pytest

from mainspring import JobContext, Mainspring
from mainspring.model.values.access import Role
from tests.dashboard.support import actions_of, links_of, pages_of, text_of
from tests.receiver import answers, receiving
from tests.support import Nodes, run_once, until

ANSWER = "<script>window.injected = 1</script> & no"


def _shop(nodes: Nodes, **settings: object) -> Mainspring:
    app = nodes.app(private_urls=True, **settings)

    @app.job("charge", max_attempts=1)
    async def charge(ctx: JobContext) -> None:
        raise ConnectionError("the bank does not answer")

    return app


@pytest.mark.req("DSH-2")
async def test_an_endpoint_is_created_edited_rotated_disabled_and_deleted(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        assert "Nothing is sent anywhere" in await pages.get("webhooks")
        fields = {"url": "https://example.com/secret-path", "id": "alerts", "description": "<b>ops</b>"}
        made = await pages.send("webhooks", **fields, events=["execution.failed", "job.paused"], jobs="charge, refund")
        assert made.status_code == 200
        [secret] = re.findall(r"whsec_[\w+/=]+", made.text)
        assert "set-cookie" not in made.headers
        view = await app.webhooks.get("alerts")
        assert (view.events, view.jobs) == (("execution.failed", "job.paused"), ("charge", "refund"))

        for path in ("webhooks", "webhooks/alerts"):
            page = await pages.get(path)
            assert secret not in page
            assert "secret-path" not in page
            assert "&lt;b&gt;ops&lt;/b&gt;" in page
        again = await pages.press(await pages.open("webhooks"), "/webhooks", **fields)
        assert again.status == 409  # the name is taken, and the form is still filled in
        assert again.forms["/dashboard/webhooks"]["id"] == "alerts"
        assert "secret-path" not in again.html
        await pages.act("webhooks/alerts/edit", description="ops", tenants="O'Neill, Söhne\nacme", tag=view.tag)
        changed = await app.webhooks.get("alerts")
        assert (changed.events, changed.jobs, changed.tenants) == ((), (), ("O'Neill, Söhne", "acme"))
        assert "has changed since" in await pages.refused("webhooks/alerts/edit", description="x", tag=view.tag)

        rotated = await pages.send("webhooks/alerts/rotate", overlap="1h")
        assert "whsec_" in rotated.text
        assert secret not in rotated.text
        disabled = await pages.act("webhooks/alerts/disable", reason="the receiver moves")
        assert "the receiver moves" in await pages.get("webhooks")
        await pages.undo(disabled)
        assert (await app.webhooks.get("alerts")).enabled
        await pages.act("webhooks/alerts/delete")
        assert await app.webhooks.all() == []
        actions = [each.action.removesuffix("_webhook") for each in await app.audits()]
        assert actions[::-1] == ["create", "update", "rotate_secret", "disable", "enable", "remove"]
    await app.close()


@pytest.mark.req("DSH-1", "DSH-2")
async def test_deliveries_show_the_answer_as_text_and_are_sent_again(nodes: Nodes) -> None:
    app = _shop(nodes, roles="scheduler,worker")
    async with receiving() as receiver, app, pages_of(app) as pages:
        receiver.behaviours["/hook"] = answers(410, body=ANSWER.encode())
        await app.webhooks.create(receiver.url("/hook"), id="alerts", events=["execution.failed"])
        await run_once(app, "charge")

        async def refused() -> bool:
            return not (await app.webhooks.get("alerts")).enabled

        await until(refused, "the receiver answered 410")
        failed = await until(lambda: app.webhooks.deliveries("alerts", status="failed"), "the delivery has failed")
        page = await pages.get("webhooks/alerts?status=failed")
        assert "&lt;script&gt;window.injected = 1&lt;/script&gt; &amp; no" in page
        assert "the receiver answered 410 Gone" in text_of(page)
        assert f"/dashboard/executions/{failed[0].id}" in await pages.get("webhooks")

        receiver.behaviours["/hook"] = answers(204)
        await pages.act("webhooks/alerts/enable")
        assert "Send 1 message again" in await pages.get("webhooks/alerts/replay")
        await pages.act("webhooks/alerts/replay", since="7d")
        await until(lambda: app.webhooks.deliveries("alerts", status="completed"), "it was delivered")
        assert "Every message created in this time has arrived" in await pages.get("webhooks/alerts/replay")
        await pages.refused("webhooks/alerts/replay", since="7d")
        await pages.act("webhooks/alerts/test")

        async def tested() -> bool:
            return len(await app.webhooks.deliveries("alerts", status="completed")) == 2

        await until(tested, "the test was delivered")
        assert "webhook.test" in await pages.get("webhooks/alerts?status=completed")
    await app.close()


@pytest.mark.req("DSH-1")
async def test_a_busy_endpoint_leaves_a_quiet_one_its_deliveries(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        for name, count in (("quiet", 1), ("busy", 101)):
            await app.webhooks.create("https://example.com/hook", id=name)
            for _ in range(count):
                await app.webhooks.test(name)
        [first] = await app.webhooks.deliveries("quiet")
        links = links_of(await pages.get("webhooks"))
        assert f"/dashboard/executions/{first.id}" in links
        assert sum("/executions/" in link for link in links) == 1 + 15
    await app.close()


@pytest.mark.req("DSH-2")
async def test_only_administrators_change_endpoints(nodes: Nodes) -> None:
    app = _shop(nodes, api_tokens=True)
    await app.webhooks.create("https://example.com/hook", id="alerts")
    commands = ("edit", "enable", "disable", "rotate", "test", "delete")
    async with pages_of(app, Role.VIEWER) as viewer, pages_of(app, Role.OPERATOR) as operator:
        for path in ("webhooks", "webhooks/alerts", "tenants"):
            assert actions_of(await viewer.get(path)) == []
            assert actions_of(await operator.get(path)) == []
        for path in ("webhooks", *(f"webhooks/alerts/{command}" for command in commands)):
            assert "admin" in await operator.refused(path, url="https://example.com/other")
        assert "operator" in await viewer.refused("webhooks/alerts/replay")
        await viewer.get("webhooks/alerts/replay", status=403)
        assert "Every message created in this time has arrived" in await operator.get("webhooks/alerts/replay")
        await viewer.get("webhooks/unknown", status=404)
    await app.close()


@pytest.mark.req("DSH-1")
async def test_tenants_are_listed_by_what_waits_runs_and_failed(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        for tenant, count in (("acme", 1), ("""<b>O'Neill</b> / 50%""", 3)):
            for _ in range(count):
                await app.enqueue("charge", tenant=tenant)
        page = await pages.get("tenants")
        assert text_of(page).index("O'Neill") < text_of(page).index("acme")
        assert "/dashboard/executions?tenant=%3Cb%3EO%27Neill%3C%2Fb%3E+%2F+50%25&amp;status=pending" in page
        assert "O'Neill" not in text_of(await pages.get("tenants?search=ACM&sort=failed"))
    await app.close()


@pytest.mark.req("DSH-1", "WHK-1")
async def test_the_queue_of_webhooks_is_served_and_an_endpoint_is_no_tenant(nodes: Nodes) -> None:
    app = _shop(nodes, heartbeat=0.2)  # which reports what has ended

    @app.job("good")
    async def good(ctx: JobContext) -> None: ...

    async with receiving() as receiver, app, pages_of(app) as pages:
        receiver.behaviours["/broken"] = answers(500)
        receiver.behaviours["/well"] = answers(200)
        for name in ("broken", "well"):
            await app.webhooks.create(receiver.url(f"/{name}"), id=name, jobs=["good"])
        await app.enqueue("good", tenant="well", start_at="1h")  # a tenant of users that is named like an endpoint
        await run_once(app, "good")

        async def tried() -> bool:
            found = await app.webhooks.deliveries("broken")
            return bool(found and found[0].attempts and receiver.at("/well"))

        await until(tried)
        assert [(each.tenant, each.waiting) for each in await app.tenants.busiest()] == [("well", 1)]
        queue = await app.queues.get("mainspring.webhooks")
        assert (queue.own, queue.workers_alive, queue.planned) == (True, 1, 1)

        async def counted() -> bool:
            return (await app.queues.get("mainspring.webhooks")).rate_out > 0

        await until(counted)
        page = text_of(await pages.get("queues?search=mainspring"))
        assert "mainspring.webhooks" in page
        assert "no worker" not in page
        assert "own, 1 worker" in page
        assert "0 of " not in page, "its slots are nobody's concern"
        assert {each.subject.kind for each in (await app.monitoring.problems()).problems} <= {"store"}
    await app.close()
