"""The pages of queues: what they show, and what their forms do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.model.values.access import Role
from tests.dashboard.support import actions_of, links_of, pages_of, text_of
from tests.support import Nodes


def _shop(nodes: Nodes, **settings: Any) -> Mainspring:
    app = nodes.app(**settings)

    @app.job("send", queue="mail")
    def send() -> None: ...

    @app.job("count", queue="night", cron="0 3 * * *")
    def count() -> None: ...

    return app


@pytest.mark.req("DSH-1")
async def test_queues_show_what_waits_and_who_serves_them(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        for _ in range(25):
            await app.enqueue("send")
        page = await pages.get("queues")
        assert "/dashboard/queues/mail" in links_of(page)
        assert "/dashboard/executions?queue=mail&status=pending" in links_of(page)
        assert "no worker serves it" in page
        assert text_of(page).index("mail") < text_of(page).index("night")  # by name
        by_load = text_of(await pages.get("queues?sort=-ready&search=MAI"))
        assert " 25 " in by_load
        assert "night" not in by_load
        one = text_of(await pages.get("queues/mail"))
        assert "25 executions wait, and no running worker serves this queue." in one
        assert "--queues mail" in one
        assert "Pause handler send" in one
        assert "No job names this queue" in await pages.get("queues/unused")
        assert "No process is running" in await pages.get("workers")
        await pages.get("queues/no such name", status=400)
    await app.close()


@pytest.mark.req("DSH-2", "QUE-1")
async def test_a_queue_is_paused_with_note_and_end_limited_and_set_back(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        done = await pages.act("queues/mail/pause", note="server <b>down</b>", resume_after="4h")
        assert done["text"].startswith("Queue mail is paused.")
        page = await pages.get("queues")
        assert "<q>server &lt;b&gt;down&lt;/b&gt;</q>" in page
        assert ", ends in " in text_of(page)
        assert "/dashboard/queues/mail/resume" in actions_of(page)
        resumed = await pages.undo(done)
        assert (await app.queues.get("mail")).pause is None
        await pages.undo(resumed)  # paused again, as before
        pause = (await app.queues.get("mail")).pause
        assert pause is not None
        assert pause.note == "server <b>down</b>"
        assert pause.resume_at is not None
        assert timedelta(hours=3.9) < pause.resume_at - pause.since < timedelta(hours=4.1)
        assert "not paused" in await pages.refused("queues/night/resume")
        assert "resume_at" in await pages.refused("queues/mail/pause", resume_at="2001-01-01T10:00")

        limited = await pages.act("queues/mail/limit", concurrency="10", rate="30/m")
        assert "At most 10 run at once and 30/m start" in limited["text"]
        assert "at most 30/m start" in text_of(await pages.get("queues/mail"))
        await pages.act("queues/mail/limit", concurrency="3")
        await pages.undo(limited)
        queue = await app.queues.get("mail")
        assert (queue.concurrency, queue.rate) == (None, None)
        assert "whole number" in await pages.refused("queues/mail/limit", concurrency="many")

        await pages.act("handlers/send/pause", note="broken")
        assert "Resume handler" in await pages.get("queues/mail")
        await pages.act("handlers/send/resume")
        actions = [each.action for each in await app.audits()]
        assert actions[:2] == ["resume_handler", "pause_handler"]
        assert actions.count("limit_queue") == 3
        assert actions.count("pause_queue") == 2
    await app.close()


@pytest.mark.req("DSH-2")
async def test_viewers_see_queues_without_actions(nodes: Nodes) -> None:
    app = _shop(nodes, api_tokens=True)
    async with pages_of(app, Role.VIEWER) as viewer, pages_of(app, Role.OPERATOR) as operator:
        for path in ("queues", "queues/mail", "workers"):
            assert actions_of(await viewer.get(path)) == []
        for path in ("queues/mail/pause", "queues/mail/limit", "handlers/send/pause", "workers/0198/drain"):
            assert "operator" in await viewer.refused(path)
        assert (await app.queues.get("mail")).pause is None
        await operator.act("queues/mail/pause")
        assert (await app.queues.get("mail")).pause is not None
    await app.close()


@pytest.mark.req("DSH-1")
async def test_slots_that_several_queues_share_say_so(nodes: Nodes) -> None:
    app = _shop(nodes, roles="worker", concurrency=4)
    async with app, pages_of(app) as pages:
        assert "0 of 4, shared, 1 worker" in text_of(await pages.get("queues"))
        assert "0 of 4, shared, 1 worker" in text_of(await pages.get("queues/mail"))
    await app.close()


@pytest.mark.req("DSH-1")
async def test_the_page_of_the_system_names_what_needs_attention_elsewhere(nodes: Nodes) -> None:
    app = _shop(nodes, roles="scheduler,worker")
    await app.queues.pause("mail")
    await app.enqueue("send")
    async with app, pages_of(app) as pages:
        page = await pages.get("system")
        assert "all checks pass; 1 thing needs attention on the overview" in text_of(page)
        assert "/dashboard" in links_of(page)
    await app.close()
