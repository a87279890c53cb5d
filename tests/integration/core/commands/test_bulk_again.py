"""One command for many, said twice: what was made under an id is not made again; a parent stands for its tenants."""

from __future__ import annotations

import pytest

from mainspring import JobContext, Mainspring, NonRetryable, State
from mainspring.core.rules.transitions import keeps
from mainspring.model.execution import ExecutionRow, encode_policy
from mainspring.model.policies import RunPolicy
from mainspring.testing import harness

ID = "0198f2aa-0000-7000-8000-000000000001"


@pytest.mark.req("FLW-6")
async def test_a_bulk_retry_under_an_id_makes_nothing_twice() -> None:
    app = Mainspring("memory://")

    @app.job("fails", max_attempts=1)
    async def fails(ctx: JobContext) -> None:
        raise NonRetryable("no")

    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("fails", None)] * 3)
        await kit.run_until_idle()
        bulk = (await app._runtime.ready()).bulk
        ids = [each.id for each in await app.executions("fails")]
        first, again = [await bulk.executions("retry", ids, by="ada", under=ID) for _ in range(2)]
        assert [item.execution_id for item in first.items] == [item.execution_id for item in again.items]
        assert len(await app.executions("fails")) == 6


@pytest.mark.req("FLW-6", "TEN-4")
async def test_a_bulk_retry_by_filter_runs_the_tenants_of_a_parent_once() -> None:
    app = Mainspring("memory://")

    @app.job("nightly", tenants=["a", "b"], tenant_max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        raise NonRetryable("no")

    async with harness(app, raise_errors=False) as kit:
        await app.trigger("nightly")
        await kit.run_until_idle()
        done = await (await app._runtime.ready()).bulk.executions(
            "retry", None, {"job": "nightly", "status": "failed"}, by="ada"
        )
        assert len(done.items) == 1
        await kit.run_until_idle()
        assert len(await app.executions("nightly")) == 6  # two parents with two tenants each


@pytest.mark.req("FLW-1")
def test_what_follows_from_another_job_stays_for_whoever_hands_over_again() -> None:
    policy = encode_policy(RunPolicy(keep_success=False))
    made = ExecutionRow(id=ID, job="b", job_id="b", handler="b", policy=policy, trigger="dependency")
    assert keeps(made, State.COMPLETED)
    assert not keeps(ExecutionRow(id=ID, job="b", job_id="b", handler="b", policy=policy), State.COMPLETED)
