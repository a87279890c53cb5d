"""The pages of backfills: progress, windows, pause and cancel."""

from __future__ import annotations

import asyncio

import pytest

from mainspring import JobContext, Mainspring
from mainspring.model.values.access import Role
from tests.dashboard.support import actions_of, links_of, pages_of, text_of
from tests.support import Nodes, until


class Reports:
    """An application with a daily report: the 2nd of a month fails, the 4th waits for `go`."""

    def __init__(self, nodes: Nodes, **settings: bool) -> None:
        self.app, self.go, self.waits = nodes.app(**settings), asyncio.Event(), asyncio.Event()

        @self.app.job(
            "report", cron="0 6 * * *", window="yesterday", tz="Europe/Paris", overlap="allow", max_attempts=1
        )
        async def report(ctx: JobContext) -> None:
            assert ctx.window is not None
            if ctx.window.begin.day == 2:
                raise ValueError("the books <b>are open")
            if ctx.window.begin.day == 4:
                self.waits.set()
                await self.go.wait()


async def _windows(app: Mainspring, id: str, ended: int) -> None:
    async def enough() -> bool:
        return (await app.backfills.get(id)).ended == ended

    await until(enough)


@pytest.mark.req("DSH-1", "DSH-2")
async def test_a_backfill_shows_its_windows_and_is_paused_resumed_and_repeated(nodes: Nodes) -> None:
    reports = Reports(nodes)
    app = reports.app
    async with app, pages_of(app) as pages:
        assert "none is under way" in await pages.get("backfills")
        begun = await app.backfills.start("report", "2020-03-01", "2020-03-08", note="new <i>books", by="ada")
        await reports.waits.wait()
        await _windows(app, begun.id, 3)
        page = await pages.get("backfills")
        for words in (
            "2020-03-01 to 2020-03-08",
            "3 of 7 ended",
            "1 failed",
            "new <i>books",
            "oldest first, 1 at a time",
        ):
            assert words in text_of(page)
        assert f"/dashboard/backfills/{begun.id}" in links_of(page)
        assert "none is under way" in await pages.get("backfills?job=other")
        at = f"backfills/{begun.id}"
        page = await pages.get(at)
        assert [page.count(f'title="{words}"') for words in ("2020-03-04: running", "waits for its turn")] == [1, 3]
        assert [page.count(f'class="w {state}"') for state in ("done", "failed", "running", "waiting")] == [3, 2, 2, 4]
        assert "the books <b>are open" in text_of(page)
        [failed] = await app.executions(parent_id=begun.id, status="failed")
        assert links_of(page).count(f"/dashboard/executions/{failed.id}") == 2  # its cell, and the list

        paused = await pages.act(f"{at}/pause")
        assert (await app.backfills.get(begun.id)).state == "paused"
        assert f"/dashboard/{at}/resume" in actions_of(await pages.get(at))
        await pages.undo(paused)
        assert (await app.backfills.get(begun.id)).state == "running"
        reports.go.set()
        assert (await app.backfills.wait(begun.id, timeout=30)).state == "partial"
        assert f"/dashboard/{at}/pause" in actions_of(await pages.get(at))  # the undo, in the notice
        page = await pages.get(at)
        assert actions_of(page) == []
        [again] = [each for each in links_of(page) if "/jobs/report/backfill?" in each]
        assert "begin=2020-03-01T00%3A00%3A00%2B01%3A00&end=2020-03-08" in again
        assert "only=failed" in again
        assert "partial" in await pages.refused(f"{at}/pause")
        audit = [each.action for each in await app.audits(f"backfill:{begun.id}")]
        assert audit == ["resume", "pause"]


@pytest.mark.req("DSH-2")
async def test_a_backfill_is_cancelled_with_a_reason_but_not_by_viewers(nodes: Nodes) -> None:
    reports = Reports(nodes, api_tokens=True)
    app = reports.app
    async with app, pages_of(app, Role.OPERATOR) as pages, pages_of(app, Role.VIEWER) as viewer:
        begun = await app.backfills.start("report", "2020-03-04", "2020-03-08")
        await reports.waits.wait()
        at = f"backfills/{begun.id}"
        assert actions_of(await viewer.get(at)) == []
        for command in ("pause", "resume", "cancel"):
            assert "needs the role operator" in await viewer.refused(f"{at}/{command}")
        assert "4 windows have not ended" in text_of(await pages.get(at))
        await pages.act(f"{at}/cancel", reason="the wrong <b>month")
        assert (await app.backfills.wait(begun.id, timeout=30)).state == "cancelled"
        page = await pages.get(at)
        assert "Reason: the wrong <b>month" in text_of(page)
        assert page.count('title="never started"') == 3
        await pages.get("backfills/nonsense", status=404)
        await pages.get(f"backfills/{begun.id[:-4]}0000", status=404)


@pytest.mark.req("DSH-2")
async def test_a_job_that_demands_an_administrator_keeps_operators_from_its_backfill(nodes: Nodes) -> None:
    app = nodes.app(api_tokens=True)

    @app.job("report", cron="0 6 * * *", window="yesterday", trigger_role="admin")
    async def report(ctx: JobContext) -> None: ...

    async with pages_of(app, Role.OPERATOR) as pages:
        begun = await app.backfills.start("report", "2020-03-04", "2020-03-08")
        assert actions_of(await pages.get(f"backfills/{begun.id}")) == []
        assert "needs the role admin" in await pages.refused(f"backfills/{begun.id}/pause")
    await app.close()
