"""The page of workers: who takes part, what each runs, and draining."""

from __future__ import annotations

import asyncio

import pytest

from mainspring import JobContext
from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo
from tests.dashboard.support import links_of, pages_of, text_of
from tests.support import Nodes, ended


@pytest.mark.req("DSH-1", "DSH-2")
async def test_workers_show_what_they_run_and_are_drained(nodes: Nodes) -> None:
    app = nodes.app(roles="worker", concurrency=4, release="2026.11 <b>")
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.job("import")
    async def import_(ctx: JobContext) -> None:
        begun.set()
        await go_on.wait()

    async with app, pages_of(app) as pages:
        run = await app.enqueue("import")
        assert run is not None
        await begun.wait()
        page = await pages.get("workers")
        assert f"/dashboard/executions/{run.id}" in links_of(page)  # its slot
        assert "1 of 4" in text_of(page)
        assert "1 of 4 slots taken" in text_of(page), "the heading agrees with the row before the next heartbeat, too"
        assert "2026.11 &lt;b&gt;" in page
        worker = (await app.workers())[0]
        done = await pages.act(f"workers/{worker.id}/drain", note="new kernel")
        drained = text_of(await pages.get("workers"))
        assert "draining" in drained
        assert "new kernel" in drained
        assert "Undrain" in drained
        await pages.undo(done)
        assert "Undrain" not in await pages.get("workers")
        assert "0198f0aa" in await pages.refused("workers/0198f0aa/drain")
        assert [each.action for each in await app.audits()][:2] == ["undrain_worker", "drain_worker"]
        go_on.set()
        await ended(app, run)
    await app.close()


@pytest.mark.req("DSH-1")
async def test_a_process_that_went_silent_is_marked_and_cannot_be_drained(nodes: Nodes) -> None:
    app = nodes.app()
    lost = WorkerInfo(id="0198f0aa-0000", host="web-9", pid=7, version="1", roles=("worker",), lease=1e-6)
    async with pages_of(app) as pages:
        store = (await app._runtime.engine()).store
        store.heartbeat(HeartbeatRequest(worker=lost, leases=(), lease=30))
        page = text_of(await pages.get("workers"))
        assert "1 process went silent" in page
        assert "web-9:7" in page
        assert "last heartbeat" in page
        assert "Drain" not in page
    await app.close()
