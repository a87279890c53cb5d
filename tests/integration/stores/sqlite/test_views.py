"""The reporting views of SQLite: stable columns over jobs, executions and locks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from mainspring import JobContext
from tests.support import Nodes, ended


def rows(nodes: Nodes, statement: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(nodes.file)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(statement)]


@pytest.mark.req("HIS-4")
async def test_the_views_show_what_happened(tmp_path: Any) -> None:
    nodes = Nodes("sqlite", tmp_path)
    app = nodes.app()

    @app.job("report", description="all of it", max_attempts=1)
    async def report(ctx: JobContext, month: str) -> dict[str, int]:
        ctx.count(pages=3)
        if month == "never":
            raise ValueError("no such month")
        return {"pages": 3}

    async with app:
        good = await ended(app, await app.enqueue(report, {"month": "may"}, by="ada"))
        bad = await ended(app, await app.enqueue(report, {"month": "never"}))
        waiting = await app.enqueue(report, {"month": "june"}, start_at="1h")
        async with app.lock("import", ttl="1m"):
            (lock,) = rows(nodes, "SELECT * FROM mainspring_view_locks")
            assert lock["name"] == "import"
    assert waiting is not None
    found = {row["execution_id"]: row for row in rows(nodes, "SELECT * FROM mainspring_view_job_executions")}
    assert found.keys() == {good.id, bad.id, waiting.id}
    done = found[good.id]
    assert (done["job_name"], done["status"], done["trigger_type"], done["triggered_by"]) == (
        "report",
        "completed",
        "enqueue",
        "ada",
    )
    assert (done["trace_id"], done["params"], done["counters"]) == (good.trace_id, '{"month":"may"}', '{"pages":3}')
    assert done["duration_ms"] == pytest.approx(good.duration_ms)
    assert done["finished_at"].startswith(good.finished_at.strftime("%Y-%m-%dT%H:%M:%S.%f"))  # type: ignore[union-attr]
    assert (found[bad.id]["error_message"], found[bad.id]["attempt"]) == ("ValueError: no such month", 1)
    assert (found[waiting.id]["status"], found[waiting.id]["started_at"]) == ("pending", None)
    (job,) = rows(nodes, "SELECT * FROM mainspring_view_jobs")
    assert (job["job_name"], job["completed"], job["failed"], job["last_status"]) == ("report", 1, 1, "failed")
    assert (job["handler"], job["queue"], job["description"]) == ("report", "default", "all of it")
    assert rows(nodes, "SELECT * FROM mainspring_view_tenant_executions") == []


@pytest.mark.req("HIS-4")
async def test_the_views_cannot_be_written_to(tmp_path: Any) -> None:
    nodes = Nodes("sqlite", tmp_path)
    app = nodes.app()
    app.job("a")(lambda: None)
    await app.open()
    await app.close()
    with pytest.raises(sqlite3.OperationalError, match="cannot modify"):
        rows(nodes, "DELETE FROM mainspring_view_jobs")
