"""One command for several named jobs or executions, within the call: it says how far it came, and what is made under an
id is not made again."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from mainspring import JobContext, Mainspring, NonRetryable, State
from mainspring.cli import many
from mainspring.core.commands import bulk as core_bulk
from mainspring.core.commands.bulk import BulkInterrupted, BulkResult
from mainspring.core.commands.steering import Steering
from mainspring.core.rules.transitions import keeps
from mainspring.model.errors import StoreError
from mainspring.model.execution import ExecutionRow, encode_policy
from mainspring.model.policies import RunPolicy
from mainspring.testing import harness
from tests.api.client import client_of

ID = "0198f2aa-0000-7000-8000-000000000001"


def _jobs(app: Mainspring, count: int) -> list[str]:
    names = [f"web-{number}" for number in range(count)]
    for name in names:
        app.job(name, cron="0 3 * * *", queue="web")(lambda: None)
    return names


class Failing:
    """A store that is gone when the fourth job is to be paused, and back afterwards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        self.asked: list[str] = []
        pause = Steering.pause

        async def paused(steering: Steering, name: str, **options: Any) -> Any:
            self.asked.append(name)
            if len(self.asked) == 4:
                raise error
            return await pause(steering, name, **options)

        monkeypatch.setattr(Steering, "pause", paused)


@pytest.mark.req("FLW-6")
async def test_of_named_ones_it_says_which_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Mainspring("memory://")
    names = _jobs(app, 6)
    Failing(monkeypatch, ConnectionResetError("gone"))
    with pytest.raises(BulkInterrupted, match=r"after 3 done, 0 refused: gone; 3 left, from 'web-3' on") as caught:
        await app.bulk.jobs("pause", names)
    assert [item.id for item in caught.value.result.items] == names[:3]
    assert caught.value.rest == tuple(names[3:])
    assert (await app.bulk.jobs("pause", caught.value.rest)).done == 3
    await app.close()


@pytest.mark.req("FLW-6", "API-8")
async def test_so_does_the_command_line_and_http(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = Mainspring("memory://")
    names = _jobs(app, 6)
    Failing(monkeypatch, StoreError("secret of the store"))
    async with client_of(app) as client:
        error = await client.refused(503, "POST", "/api/v1/bulk/jobs", {"command": "pause", "ids": names})
    assert error["details"] == {"done": 3, "refused": 0, "left": names[3:]}
    assert "secret" not in str(error)
    await app.close()

    class Session:
        wants_json = False

        def call(self, work: Any) -> BulkResult:
            items = [core_bulk.BulkItem(id=name, status="paused") for name in names[:3]]
            raise BulkInterrupted(BulkResult(command="pause", items=items), StoreError("gone"), names[3:])

        def show(self, data: Any, people: Any) -> None:
            people()

    with pytest.raises(StoreError, match=r"3 left, from 'web-3' on; name those that are left to go on"):
        many.run_bulk(Session(), "pause", None, "JOB")  # type: ignore[arg-type]
    assert "pause: 3 done, 0 refused" in capsys.readouterr().out


@pytest.mark.req("FLW-6")
def test_who_stops_it_is_told_how_far_it_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C comes when the third one is done."""
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")
    names = _jobs(app, 5)

    class Session:
        wants_json = False

        def call(self, work: Any) -> BulkResult:
            return asyncio.run(stopped(work))

        def show(self, data: Any, people: Any) -> None:
            people()

    async def stopped(work: Any) -> BulkResult:
        try:
            return await work(app)  # type: ignore[no-any-return]
        finally:
            await app.close()

    async def pause(app: Mainspring, told: Any) -> BulkResult:
        def stop(item: Any) -> None:
            told(item)
            if item.id == names[2]:
                signal.raise_signal(signal.SIGINT)

        return await app.bulk.jobs("pause", names, on_item=stop)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            many.run_bulk(Session(), "pause", pause, "JOB")  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, before)
    screen = capsys.readouterr()
    assert "pause: 3 done, 0 refused" in screen.out
    assert f"stopped after {names[2]}; name those that are left" in screen.err


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


@pytest.mark.req("FLW-1")
def test_what_follows_from_another_job_stays_for_whoever_hands_over_again() -> None:
    policy = encode_policy(RunPolicy(keep_success=False))
    made = ExecutionRow(id=ID, job="b", job_id="b", handler="b", policy=policy, trigger="dependency")
    assert keeps(made, State.COMPLETED)
    assert not keeps(ExecutionRow(id=ID, job="b", job_id="b", handler="b", policy=policy), State.COMPLETED)
