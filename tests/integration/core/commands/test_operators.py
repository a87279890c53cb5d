"""What operators meet: commands in odd moments, pruning, work that is not kept."""

from __future__ import annotations

import pytest

from mainspring import CommandRefused, JobContext, Retention, every
from mainspring.core.jobs import job_cache
from mainspring.model.events import Pruned
from tests.integration.gate import Gate
from tests.support import NEVER, Nodes, Seen, ended, until


@pytest.mark.req("EXE-1")
async def test_a_job_paused_while_it_runs_can_be_resumed_and_not_paused_twice(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, "long", trigger=every(hours=1))
    async with app:
        run = await app.trigger("long")
        await gate.holds(run)
        assert (await app.pause("long", note="first")).is_paused
        with pytest.raises(CommandRefused, match="it is paused"):
            await app.pause("long", note="second")
        assert not (await app.resume("long")).is_paused
        gate.open.set()
        assert (await ended(app, run)).state == "completed"


@pytest.mark.req("EXE-1")
async def test_no_execution_of_a_cancelled_job_is_retried(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("fails", max_attempts=1)
    async def fails() -> None:
        raise ValueError

    async with app:
        failed = await ended(app, await app.enqueue("fails"))
        await app.enqueue("fails", start_at="1h")  # a job whose last run has failed and that has no other is over
        await app.cancel("fails", reason="retired")
        with pytest.raises(CommandRefused, match="cannot retry job 'fails': it is cancelled"):
            await app.retry(failed)


@pytest.mark.req("EXE-1")
async def test_the_reason_of_a_cancelled_job_is_that_of_its_executions(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("later")(lambda: None)
    waiting = await app.enqueue("later", start_at="1h")
    await app.cancel("later", reason="the shop is closed")
    assert (await ended(app, waiting)).reason == "the shop is closed"
    await app.close()


@pytest.mark.req("API-4")
async def test_what_is_added_to_a_job_just_cancelled_elsewhere_never_runs(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_cache, "FRESH_FOR", NEVER)  # one process knows the job of before
    stale, other = nodes.app(), nodes.app()
    ran: list[str] = []
    for app in (stale, other):
        app.job("work")(lambda name: ran.append(name))
    await stale.enqueue("work", {"name": "before"}, start_at="1h")
    await other.cancel("work", reason="retired")
    late = await stale.enqueue("work", {"name": "after"})
    await stale.close()
    async with other:
        stopped = await ended(other, late)
    assert (stopped.state, stopped.reason, ran) == ("cancelled", "the job was cancelled", [])


@pytest.mark.req("REG-9")
async def test_a_single_process_prunes_what_its_code_no_longer_declares(nodes: Nodes) -> None:
    seen = Seen()
    before, after = nodes.app(), nodes.app(prune=True, observers=[seen])
    for name in ("kept", "gone"):
        before.job(name)(lambda: None)
    async with before:
        pass
    after.job("kept")(lambda: None)
    async with after:
        assert [view.name for view in await after.jobs()] == ["kept"]
    assert [event.jobs for event in seen.of(Pruned)] == [("gone",)]


@pytest.mark.req("REG-9")
async def test_what_a_living_process_declares_is_not_pruned(nodes: Nodes) -> None:
    other, pruning = nodes.app(lease="5m"), nodes.app(prune=True, lease="1s")
    other.job("theirs")(lambda: None)
    pruning.job("ours")(lambda: None)
    async with other, pruning:
        assert [view.name for view in await pruning.jobs()] == ["ours", "theirs"]


@pytest.mark.req("HIS-2")
async def test_work_that_is_not_kept_can_be_waited_for(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("brief", retention=Retention(keep_success=False))(lambda: None)
    async with app:
        assert (await ended(app, await app.enqueue("brief"))).state == "completed"


@pytest.mark.req("HIS-1")
async def test_filters_by_state_and_by_running_go_together(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("done")(lambda: None)
    async with app:
        await ended(app, await app.enqueue("done"))
        assert len(await app.executions(status="completed", running=False)) == 1
        assert await app.executions(status="failed", running=False) == []
        assert await app.executions(status="completed", running=True) == []


@pytest.mark.req("EXE-11")
async def test_log_lines_survive_a_moment_without_the_store(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()

    @app.job("talks")
    async def talks(ctx: JobContext) -> None:
        for number in range(20):
            ctx.logger.info("line %d", number)
            ctx.progress(number, 20)
            await until(lambda: True)

    async with app:
        parts = app._runtime.parts
        assert parts is not None
        store, refusals = parts.store, iter(range(3))
        real = store.report

        async def report(reports: object) -> list[bool]:
            if next(refusals, None) is not None:
                raise OSError("the store is away")
            return await real(reports)  # type: ignore[arg-type]

        store.report = report  # type: ignore[method-assign]
        execution = await ended(app, await app.enqueue("talks"))
        store.report = real  # type: ignore[method-assign]
        assert [line.message for _, line in await app.logs(execution.id)] == [f"line {n}" for n in range(20)]
