"""The pages of bulk actions: the dry run before, progress and results after."""

from __future__ import annotations

import re

import pytest

from mainspring import Mainspring
from mainspring.model.values.access import Role
from tests.dashboard.support import actions_of, links_of, notice_of, pages_of, text_of
from tests.support import Nodes, ended, run_once

WAITING = 12


async def _shop(nodes: Nodes, **settings: bool) -> Mainspring:
    """Twelve mails that wait; nothing runs."""
    app = nodes.app(**settings)

    @app.job("send", queue="mail", search="order_id")
    def send(order_id: int, full: bool = False) -> None: ...

    @app.job("night", cron="0 3 * * *")
    def night() -> None: ...

    for order in range(WAITING):
        await app.enqueue("send", {"order_id": order})
    return app


@pytest.mark.req("DSH-2", "SRC-4")
async def test_nothing_happens_before_the_dry_run_is_confirmed(nodes: Nodes) -> None:
    app = await _shop(nodes)
    async with pages_of(app) as pages:
        new = "bulk/new?target=executions&action=cancel&queue=mail&status=pending"
        page = await pages.get(new)
        text = text_of(page)
        assert "Cancel 12 executions" in text
        assert "executions in queue mail, with status pending" in text
        assert "/dashboard/executions?queue=mail&status=pending" in links_of(page)
        assert text.count(" cancelled ") == 10  # the sample
        assert len(await app.executions(status="pending")) == WAITING
        assert actions_of(page) == [f"/dashboard/{new}"]
        done = await pages.act(new, step="start", note="wrong list", pace="600/m")
        assert done["text"] == "Cancel 12 executions: it has begun."
        [bulk] = await app.bulk.recent()
        assert (bulk.action, bulk.pace, bulk.note) == ("cancel", 10.0, "wrong list")
        assert bulk.filter == {"queue": "mail", "status": ["pending"]}
        page = await pages.get("bulk")
        assert "1 under way" in text_of(page)
        assert f"/dashboard/bulk/{bulk.id}/abort" in actions_of(page)
        assert "a whole number" in text_of((await pages.send(new, step="start", probe="some")).text)
        wrong = await pages.send(new, step="start", pace="quickly", note="keep this")
        assert wrong.status_code == 400
        assert "items per second" in text_of(wrong.text)
        assert 'value="keep this"' in wrong.text
    await app.close()


@pytest.mark.req("DSH-2", "SRC-4")
async def test_a_retry_proposes_a_probe_and_shows_what_became_of_the_new_executions(nodes: Nodes) -> None:
    app = nodes.app(roles="worker")

    @app.job("charge", max_attempts=1)
    async def charge(order: int) -> None:
        raise ValueError(f"order {order}")

    async with app, pages_of(app) as pages:
        for order in range(7):
            await run_once(app, "charge", {"order": order})
        first = (await app.executions("charge"))[-1]
        again = await app.retry(first)
        await ended(app, again)
        new = "bulk/new?target=executions&action=retry&job=charge&status=failed"
        page = await pages.get(new)
        assert re.search(r'name="probe"[^>]* value="5"', page)
        assert f"left out: already retried as {again.id[-8:]}" in text_of(page)
        assert f"/dashboard/executions/{again.id}" in links_of(page)
        assert "Retry 7 executions?" in text_of(page)  # 8 match
        assert "1 of the 8 looked at: already retried" in text_of(page)
        few = await pages.get(f"bulk/new?target=executions&action=retry&id={again.id}")
        assert re.search(r'name="probe"[^>]* value="0"', few)

        await pages.act(new, step="start", probe="1")
        [bulk] = await app.bulk.recent()
        over = await app.bulk.wait(bulk.id, timeout=30)
        assert (over.state, over.reason) == ("stopped", "the probe run failed: ValueError: order 0")
        text = text_of(await pages.get(f"bulk/{bulk.id}"))
        assert "1 retried" in text
        assert f"{over.handled} of 8; {8 - over.handled} were not reached" in text
        assert "1 of 8 done" in text_of(await pages.get("bulk"))
        audit = await pages.get("changes/audit")
        for words in ("start bulk action", "bulk action ended", "this machine", f"bulk {bulk.id[-8:]}"):
            assert words in text_of(audit)
        assert "ids 0" not in text_of(audit)
        assert {f"/dashboard/bulk/{bulk.id}", f"/dashboard/executions/{over.stopped_by}"} <= set(links_of(audit))
        assert " retried failed " in text, "the result, and the state of the new execution"
        assert over.stopped_by is not None
    await app.close()


@pytest.mark.req("DSH-2", "SRC-4")
async def test_items_by_name_refusals_and_undo(nodes: Nodes) -> None:
    app = await _shop(nodes)
    async with pages_of(app) as pages:
        new = "bulk/new?target=jobs&action=pause&id=send&id=night&id=nope"
        text = text_of(await pages.get(new))
        assert "Pause 3 jobs" in text
        assert "3 jobs, chosen one by one" in text
        assert "1 of the 3 looked at:" in text
        await pages.act(new, step="start", note="during the move")
        [bulk] = await app.bulk.recent()
        await app.bulk.wait(bulk.id, timeout=30)
        page = await pages.get(f"bulk/{bulk.id}")
        assert "no longer there" in text_of(page)  # the kind of the refusal
        assert "during the move" in text_of(page)
        refused = text_of(await pages.get(f"bulk/{bulk.id}?status=refused"))
        assert "nope" in refused
        assert "night" not in refused
        [undo] = [each for each in links_of(page) if "action=resume" in each]
        assert "Resume 2 jobs again" in text_of(page)
        await pages.act(undo.removeprefix("/dashboard/"), step="start")
        await app.bulk.wait((await app.bulk.recent())[0].id, timeout=30)
        assert [view.state for view in await app.jobs()] == ["scheduled", "pending"]
    await app.close()


@pytest.mark.req("DSH-2", "SRC-4")
async def test_an_edit_is_previewed_with_its_parameters(nodes: Nodes) -> None:
    app = await _shop(nodes)
    async with pages_of(app) as pages:
        new = "bulk/new?target=executions&action=edit&search=order_id%3D3"
        assert "Parameters to change" in text_of(await pages.get(new))
        for wrong, words in (("[1]", "a JSON object"), ("{", "a JSON object")):
            answer = await pages.send(new, step="preview", params=wrong)
            assert (answer.status_code, words in text_of(answer.text)) == (400, True)
        shown = await pages.send(new, step="preview", params='{"colour": 1}')
        assert "1 of the 1 looked at:" in text_of(shown.text)  # the handler has no such parameter
        shown = await pages.send(new, step="preview", params='{"full": true}')
        assert "Edit 1 execution" in text_of(shown.text)
        assert " replaced " in text_of(shown.text)
        assert await app.bulk.recent() == []
        await pages.act(new, step="start", params='{"full": true}')
        [bulk] = await app.bulk.recent()
        await app.bulk.wait(bulk.id, timeout=30)
        [made] = await app.executions(search="order_id=3", status="pending")
        assert made.params == {"order_id": 3, "full": True}
    await app.close()


@pytest.mark.req("DSH-2")
async def test_a_misspelled_filter_is_refused_not_left_out(nodes: Nodes) -> None:
    app = await _shop(nodes)
    async with pages_of(app) as pages:
        for query, words in (
            ("action=cancel&stauts=pending&queue=mail", "Did you mean &#39;status&#39;?"),
            ("action=cancel&status=pendign", "Did you mean &#39;pending&#39;?"),
            ("action=burn&queue=mail", "burn"),
            ("target=shops&action=retry&queue=mail", "shops"),
        ):
            assert words in await pages.get(f"bulk/new?{query}", status=400)
        assert "Nothing matches" in await pages.get("bulk/new?action=retry&queue=mail&status=failed")
        nothing = notice_of(await pages.http.get("/dashboard/bulk/new?action=retry"))
        assert nothing["text"].startswith("Nothing is selected.")
    await app.close()


@pytest.mark.req("DSH-2", "SRC-4")
async def test_a_bulk_is_aborted_with_a_reason(nodes: Nodes) -> None:
    app = await _shop(nodes)
    async with pages_of(app) as pages:
        bulk = await app.bulk.start("cancel", filter={"queue": "mail"}, pace="1/h", by="ada")
        assert f"/dashboard/bulk/{bulk.id}/abort" in actions_of(await pages.get(f"bulk/{bulk.id}"))
        done = await pages.act(f"bulk/{bulk.id}/abort", reason="the wrong <b>queue")
        assert done["text"].startswith("Aborted after ")
        page = await pages.get(f"bulk/{bulk.id}")
        assert "Aborted: the wrong <b>queue" in text_of(page)
        assert actions_of(page) == []
        assert "bulk_abort" in [each.action for each in await app.audits()]
        await pages.refused(f"bulk/{bulk.id}/abort")
        await pages.get("bulk/nonsense", status=404)
    await app.close()


@pytest.mark.req("DSH-2")
async def test_viewers_see_bulk_actions_and_cannot_abort_them(nodes: Nodes) -> None:
    app = await _shop(nodes, api_tokens=True)
    async with pages_of(app, Role.VIEWER) as pages:
        assert "none is under way" in await pages.get("bulk")
        bulk = await app.bulk.start("cancel", filter={"queue": "mail"}, pace="1/h", by="ada")
        for path in ("bulk", f"bulk/{bulk.id}"):
            assert actions_of(await pages.get(path)) == []
        assert "needs the role operator" in await pages.refused(f"bulk/{bulk.id}/abort")
        assert not (await app.bulk.get(bulk.id)).over
    await app.close()
