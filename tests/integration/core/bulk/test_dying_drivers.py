"""A driver may die before or after any call of the store: the next one goes on, nothing is done twice, and the counts
are exact."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mainspring import JobContext, Mainspring, NonRetryable
from mainspring.core.bulk import rules
from mainspring.core.bulk.actions import Actions
from mainspring.core.bulk.commands import BulkRequest
from mainspring.core.bulk.driver import BulkDriver
from mainspring.model.bulk import BulkRow
from mainspring.testing import harness

ITEMS, PAGE = 3, 2


class Died(BaseException):
    """No handler of the driver may catch it, as none catches SIGKILL."""


class Mortal:
    """Stands before the store, and dies at the call of this number: before it, or once it is done."""

    def __init__(self, store: Any) -> None:
        self.store, self.left, self.afterwards = store, -1, False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.store, name)
        if not name.startswith(("add", "exchange", "write_", "request_cancel", "delete", "entries", "find", "search")):
            return call

        async def mortal(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.afterwards:
                raise Died
            result = await call(*args, **options)
            if self.left == 0:
                raise Died
            return result

        return mortal


async def _survives(app: Mainspring, mortal: Mortal, bulk: BulkRow, calls: int, afterwards: bool) -> bool:
    """Whether the driver came to the end without dying."""
    parts = app._runtime.parts
    assert parts is not None
    mortal.left, mortal.afterwards = calls, afterwards
    store: Any = mortal
    steering, runs = parts.steering, parts.manual_runs
    before = steering._store, runs._store, runs.claims._store
    steering._store = runs._store = runs.claims._store = store
    actions = Actions(store, steering, runs, parts.errors, parts.chance, parts.bulk_actions._emit)
    driver = BulkDriver(store, actions, parts.job_lists, parts.chance, parts.bulk_actions._emit)
    try:
        while await driver.drive(bulk.id) is not None:
            pass
    except Died:
        return False
    finally:
        mortal.left = -1
        steering._store, runs._store, runs.claims._store = before
    return True


@pytest.mark.req("SRC-4", "REL-1")
@pytest.mark.parametrize("afterwards", [False, True])
@pytest.mark.parametrize(
    ("action", "target", "params"),
    [
        ("retry", "executions", None),
        ("cancel", "executions", None),
        ("edit", "executions", {"order": 7}),
        ("delete", "executions", None),
        ("pause", "jobs", None),
    ],
)
async def test_a_driver_dies_at_any_call(
    action: str, target: str, params: dict[str, Any] | None, afterwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "PAGE", PAGE)
    monkeypatch.setattr(rules, "TAKEOVER", 0)
    app = Mainspring("memory://")

    @app.job("pay", max_attempts=1)
    async def pay(ctx: JobContext, order: int) -> None:
        raise NonRetryable("no")

    for number in range(ITEMS):
        app.job(f"crawl-{number}", cron="0 3 * * *", queue="web")(lambda: None)

    async with harness(app, raise_errors=False) as kit:
        await app.open()
        for calls in range(1, 1_000):
            made = [each for each in await app.enqueue_many([("pay", {"order": 1})] * ITEMS) if each is not None]
            if action in ("retry", "delete"):
                await kit.run_until_idle()
            if target == "jobs":
                await app.bulk.jobs("resume", [f"crawl-{number}" for number in range(ITEMS)])
            parts = app._runtime.parts
            assert parts is not None
            filter: dict[str, Any] = (
                {"queue": "web"} if target == "jobs" else {"job": "pay", "since": made[0].created_at}
            )
            if action in ("cancel", "edit"):
                filter["status"] = "pending"
            bulk = await parts.bulk_actions.start(BulkRequest(action, target, None, filter, params))
            mortal = Mortal(parts.store)
            first = await _survives(app, mortal, bulk, calls, afterwards)
            over = await app.bulk.wait(bulk.id, timeout=10)
            assert (over.state, over.done, over.refused, over.skipped) == ("completed", ITEMS, 0, 0), calls
            items = (await app.bulk.items(bulk.id)).items
            assert len({item.id for item in items}) == len(items) == ITEMS
            if target == "executions":
                assert {item.id for item in items} == {each.id for each in made}
            audits = [each for each in await app.audits(limit=1_000) if each.request_id == f"bulk:{bulk.id}"]
            changed = Counter((each.action, each.target) for each in audits)
            assert set(changed.values()) == {2 if action == "edit" else 1}, "each change is audited once"
            if action in ("retry", "edit"):
                again = Counter(each.retry_of for each in await app.executions("pay", limit=1_000) if each.retry_of)
                assert all(again[each.id] == 1 for each in made), "each is made once"
            if action == "delete":
                assert await app.executions("pay") == []
            await app.bulk.executions("cancel", await app.executions("pay", status="pending", limit=1_000))
            await kit.advance(1)
            if first:
                break
        else:
            pytest.fail("it never came to its end")
        assert calls > 10
