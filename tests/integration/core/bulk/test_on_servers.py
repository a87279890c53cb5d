"""Bulk actions on the real databases: retry, edit of what waits, cancel, pause, in one application."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring import Mainspring, NonRetryable
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import until


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/bulk.db"
    return (postgres() if request.param == "postgres" else mongo("replica_set")).migrated_database()


@pytest.mark.req("SRC-4", "SRC-5")
async def test_actions_on_a_database(url: str) -> None:
    app = Mainspring(url)

    @app.job("pay", max_attempts=1, search=("order",))
    async def pay(order: int, good: bool = False) -> None:
        if not good:
            raise NonRetryable(f"order {order}")

    app.job("crawl", cron="0 3 * * *", queue="web")(lambda: None)
    async with app:
        await app.enqueue_many([("pay", {"order": number}) for number in range(6)])

        async def failed() -> bool:
            return len(await app.executions("pay", status="failed")) == 6

        await until(failed, "all have failed", 60)
        bulk = await app.bulk.start("edit", filter={"job": "pay", "status": "failed"}, params={"good": True}, probe=2)
        over = await app.bulk.wait(bulk.id, timeout=60)
        assert (over.state, over.done, len(over.probed)) == ("completed", 6, 2)

        waiting = await app.enqueue("pay", {"order": 9}, start_at="1h", unique="nine")
        assert waiting is not None
        bulk = await app.bulk.start(
            "edit", filter={"job": "pay", "status": "pending", "search": "order=9"}, params={"order": 7}
        )
        over = await app.bulk.wait(bulk.id, timeout=60)
        assert (over.done, over.refused) == (1, 0)
        [found] = await app.executions(search="order=7", status="pending")
        assert (found.retry_of, found.edited) == (waiting.id, {"order": {"before": 9, "after": 7}})
        over = await app.bulk.wait((await app.bulk.start("cancel", filter={"search": "order=7"})).id, timeout=60)
        assert (over.done, (await app.get(found.id)).reason) == (1, f"cancelled by system (bulk {over.id})")
        over = await app.bulk.wait((await app.bulk.start("pause", "jobs", filter={"queue": "web"})).id, timeout=60)
        assert over.done == 1
        over = await app.bulk.wait((await app.bulk.start("delete", filter={"job": "pay"})).id, timeout=60)
        assert (over.done, over.refused, await app.executions("pay")) == (14, 0, [])
