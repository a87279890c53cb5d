"""The pages of errors: what they show, retry and mute."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.core.errors.commands import ErrorGroupView
from mainspring.model.values.access import Role
from mainspring.server.dashboard.traceback import split_traceback
from tests.dashboard.support import actions_of, links_of, pages_of, text_of
from tests.support import Nodes, until

FAILURES = 7


class Bank:
    down = True


@asynccontextmanager
async def failing(nodes: Nodes, **settings: Any) -> AsyncIterator[tuple[Mainspring, Bank, ErrorGroupView]]:
    """An application one job of which has failed seven times with the same error."""
    app, bank = nodes.app(fold_interval=0.05, release="v1 <b>", **settings), Bank()

    @app.job("charge", max_attempts=1)
    async def charge(order_id: int) -> str:
        if bank.down:
            raise LookupError(f"order {order_id} <i>is gone")
        return "charged"

    async with app:
        for order in range(FAILURES):
            await app.wait(await app.enqueue("charge", {"order_id": order}))

        async def counted() -> Any:
            return [each for each in await app.errors.all() if each.count == FAILURES]

        [group] = await until(counted)
        yield app, bank, group


@pytest.mark.req("DSH-1")
async def test_errors_are_listed_with_trend_jobs_and_release(nodes: Nodes) -> None:
    async with failing(nodes) as (app, _, group), pages_of(app) as pages:
        page = await pages.get("errors")
        for words in ("order … <i>is gone", "LookupError", "v1 <b>"):
            assert words in text_of(page)
        assert "<i>is gone" not in page
        assert "7 failed attempts in the last 24 hours" in page  # the label of the sparkline
        assert "/dashboard/jobs/charge" in links_of(page)
        for query in ("job=charge", "since=1h", "muted=false", "sort=count"):
            assert group.id in await pages.get(f"errors?{query}")
        for query in ("job=other", "tenant=acme", "muted=true"):
            assert "No error matches" in await pages.get(f"errors?{query}")
        await pages.get("errors?muted=perhaps", status=400)

        page = await pages.get(f"errors/{group.id}")
        assert "LookupError: order 6 <i>is gone" in text_of(page)
        assert "in charge" in text_of(page)  # the traceback
        assert f"/dashboard/executions?job=charge&error_group={group.id}" in links_of(page)
        await pages.get("errors/000000000000", status=404)


@pytest.mark.req("DSH-2", "SRC-2")
async def test_an_error_is_retried_with_a_probe_then_all(nodes: Nodes) -> None:
    async with failing(nodes) as (app, bank, group), pages_of(app) as pages:
        page = await pages.get(f"errors/{group.id}")
        assert "Try 5 first, then all 7" in text_of(page)
        new = next(each for each in links_of(page) if "/bulk/new" in each).removeprefix("/dashboard/")
        page = await pages.get(new)
        assert "Retry 7 executions" in text_of(page)
        assert 'name="probe" min="0" max="100" value="5"' in page
        assert await app.bulk.recent() == []
        bank.down = False
        done = await pages.act(new, step="start", probe="5", note="the bank is back")
        assert done["text"] == "Retry 7 executions: it has begun."
        [bulk] = await app.bulk.recent()
        assert (bulk.probe, bulk.note, bulk.created_by) == (5, "the bank is back", "loopback")
        ended = await app.bulk.wait(bulk.id, timeout=30)
        assert (ended.state, ended.done) == ("completed", 7)
        page = await pages.get(f"bulk/{bulk.id}")
        assert "All of these completed" in text_of(page)
        assert {f"/dashboard/executions/{id}" for id in ended.probed} <= set(links_of(page))
        page = await pages.get(f"errors/{group.id}")
        assert "by this machine, 7 of 7: the bank is back. It is completed." in text_of(page)
        assert f"bulk:{bulk.id}" in [each.target for each in await app.audits() if each.action == "bulk_start"]


@pytest.mark.req("DSH-2", "SRC-2")
async def test_mute_and_unmute_undo_each_other(nodes: Nodes) -> None:
    async with failing(nodes) as (app, _, group), pages_of(app) as pages:
        at = f"errors/{group.id}"
        done = await pages.act(f"{at}/mute", note="known", until="2999-01-01T10:00")
        assert done["text"].startswith("Muted: order … <i>is gone")
        muted = (await app.errors.get(group.id)).mute
        assert muted is not None
        assert (muted.note, muted.by, str(muted.until)) == ("known", "loopback", "2999-01-01 10:00:00+00:00")
        page = await pages.get(at)
        assert "known" in text_of(page)
        assert actions_of(page)[-1] == f"/dashboard/{at}/unmute"
        unmuted = await pages.undo(done)
        assert (await app.errors.get(group.id)).mute is None
        await pages.undo(unmuted)
        again = (await app.errors.get(group.id)).mute
        assert again is not None
        assert (again.note, again.until) == (muted.note, muted.until)
        assert "a time in the future" in await pages.refused(f"{at}/mute", until="2001-01-01T10:00")
        audit = [each.action for each in await app.audits() if each.target == f"error:{group.id}"]
        assert audit == ["mute", "unmute", "mute"]


@pytest.mark.req("DSH-2")
async def test_viewers_see_errors_without_actions(nodes: Nodes) -> None:
    async with failing(nodes, api_tokens=True) as (app, _, group), pages_of(app, Role.VIEWER) as pages:
        for path in ("errors", f"errors/{group.id}"):
            page = await pages.get(path)
            assert actions_of(page) == []
            assert "/bulk/new" not in page
        await pages.get("bulk/new?action=retry&status=failed", status=403)
        for path in (f"errors/{group.id}/mute", f"errors/{group.id}/unmute", "bulk/new?action=retry&status=failed"):
            assert "needs the role operator" in await pages.refused(path)
        assert (await app.errors.get(group.id)).mute is None


@pytest.mark.req("DSH-1")
async def test_without_failures_the_page_teaches(nodes: Nodes) -> None:
    async with nodes.app() as app, pages_of(app) as pages:
        assert "No job has failed" in await pages.get("errors")


@pytest.mark.req("DSH-1")
def test_frames_of_libraries_are_folded() -> None:
    trace = """Traceback (most recent call last):
  File "/srv/shop/pay.py", line 3, in charge
    bank.get(url)
    ~~~~~~~~^^^^^
  File "/venv/lib/python3.12/site-packages/httpx/_api.py", line 9, in get
    return send()
  File "/usr/lib/python3.12/asyncio/tasks.py", line 520, in wait_for
    return await fut
  [Previous line repeated 3 more times]
  File "/srv/shop/hooks.py", line 8, in sent
    raise ValueError("no")
ValueError: no
  File "not a frame

During handling of the above exception, another exception occurred:

  + Exception Group Traceback (most recent call last):
  |   File "/srv/shop/pay.py", line 7, in charge
  |     async with asyncio.TaskGroup() as group:
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"""
    parts = split_traceback(trace)
    assert "\n".join(part.text for part in parts) == trace
    kinds = ["text", "own", "library", "own", "text", "own", "text"]
    assert [(part.kind, part.frames) for part in parts] == list(zip(kinds, [0, 1, 2, 1, 0, 1, 0], strict=True))
    assert parts[2].packages == ("httpx", "Python")
    installed = 'Traceback:\n  File "/v/lib/python3.12/site-packages/shop/pay.py", line 1, in f\nE: x'
    assert [part.kind for part in split_traceback(installed)] == ["text", "own", "text"]
    assert split_traceback(None) == split_traceback("") == []
