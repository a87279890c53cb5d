"""`mainspring queues` and `mainspring handlers` in this process, against a database of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.cli.root import run_command
from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo
from tests.support import until

END, MORNING = "2999-01-01T00:00Z", "2999-01-01T08:00"


@pytest.mark.req("QUE-1", "QUE-2", "OPS-4")
def test_queues_and_handlers_are_paused_resumed_and_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    url = f"sqlite:///{tmp_path / 'queues.db'}"
    app = Mainspring(url, roles=())
    app.job("send", queue="mail")(lambda: None)
    with app.sync:
        for _ in range(3):
            app.sync.enqueue("send")

    def run(*arguments: str, code: int = 0) -> str:
        found = run_command([*arguments, "--database-url", url])
        output = capsys.readouterr()
        assert found == code, output
        return output.out + output.err

    paused = run("queues", "pause", "mail", "--note", "server down", "--until", END)
    assert paused.startswith("queue 'mail' is paused by ")
    assert "until 2999-01-01" in paused
    assert paused.endswith(": server down (3 ready, 0 running)\n")
    assert "server down" in run("queues", "list")
    for both in (("--for", "2h", "--until", END), ("--until", END, "--for", "2h")):
        assert "--for and --until exclude each other" in run("queues", "pause", "mail", *both, code=2)
    assert "--until: 'tomorrow' is not valid" in run("queues", "pause", "mail", "--until", "tomorrow", code=2)
    assert run("queues", "resume", "mail") == "queue 'mail' resumed: 3 are ready\n"
    limited = run("queues", "limit", "mail", "--concurrency", "2", "--rate", "100/m")
    assert limited == "queue 'mail': at most 2 at once, at most 100 a minute begin\n"

    assert "Processes wanted: 1; running: 0." in run("queues", "list")
    assert "nothing uses a queue 'mial' yet; did you mean 'mail'?" in run("queues", "pause", "mial", "--until", MORNING)
    assert "did you mean 'mail'?" in run("queues", "limit", "maill", "--concurrency", "2")

    misspelt = run("handlers", "pause", "sned", "--for", "1h")
    assert "(0 ready, 0 running)\nno running worker has a handler 'sned'" in misspelt
    run("jobs", "pause", "send", "--note", "no paper")
    paused = run("jobs", "list", "--paused")
    assert "no paper" in paused
    assert "Also: queue mial is paused by " in paused
    assert "Also: handler sned is paused by " in paused
    why = run("jobs", "why", "send")
    assert "what to do\nmainspring jobs resume send\n" in why

    pauses = [line for line in run("changes", "--since", "1h").splitlines() if " pause " in line]
    assert pauses[0].endswith("job send: no paper")
    assert f"queue mial: until {MORNING.replace('T', ' ')}" in pauses[2]
    for command in (("changes",), ("errors", "list"), ("executions", "list")):
        refused = run(*command, "--since", "yesterday", code=2)
        assert "--since: 'yesterday' is not valid; allowed: a time such as 2026-03-01T08:00" in refused
    assert run("errors", "list", "--since", "2h") == "No error matches.\n"
    assert "no error group named '7efb'" in run("executions", "list", "--error-group", "7efb", code=2)
    assert run("executions", "list", "--since", MORNING) == "No execution matches.\n"


@pytest.mark.req("SRC-1", "OPS-4")
async def test_silent_workers_the_longest_runs_and_a_dry_run_of_a_retry_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    url, go = f"sqlite:///{tmp_path / 'night.db'}", asyncio.Event()
    app = Mainspring(url, fold_interval=0.05)

    @app.job("hang")
    async def hang() -> None:
        await go.wait()

    @app.job("charge", max_attempts=1)
    async def charge(works: bool = False) -> None:
        if not works:
            raise ConnectionError("the gateway of the bank does not answer")

    async def run(*arguments: str) -> str:
        assert await asyncio.to_thread(run_command, [*arguments, "--database-url", url]) == 0
        return capsys.readouterr().out

    async with app:
        gone = WorkerInfo(id="gone", host="elsewhere", pid=1, version="0", lease=0.001)
        (await app._runtime.engine()).store.heartbeat(HeartbeatRequest(worker=gone, leases=(), lease=0.001))
        for _ in range(3):
            await app.enqueue("hang")

        async def all_run() -> bool:
            return len(await app.executions(running=True)) == 3

        await until(all_run)
        lines = (await run("executions", "list", "--longest", "--limit", "2")).splitlines()[1:]
        assert len(lines) == 2
        started = {each.id[-12:]: each.started_at for each in await app.executions(running=True)}
        assert [started[line.split()[0][-12:]] for line in lines] == sorted(filter(None, started.values()))[:2]
        go.set()

        await app.wait(await app.enqueue("charge"))
        [group] = await until(app.errors.all)
        shown = await run("errors", "list", "--since", "2h")
        assert "ConnectionError: the gateway of the bank do" in shown
        assert max(map(len, shown.splitlines())) <= 100
        assert "1 execution matches" in await run("errors", "retry", group.id, "--dry-run")
        assert await app.bulk.recent() == []
        assert "retrying 1 execution: follow" in await run("errors", "retry", group.id)
        await app.bulk.wait((await app.bulk.recent())[0].id)
        retry = await app.wait((await app.errors.get(group.id)).last_retry_id or "")
        await app.wait(await app.retry(retry.id, params={"works": True}))

        async def both_counted() -> bool:
            return (await app.errors.get(group.id)).failures == 2

        await until(both_counted)
        again = await run("errors", "retry", group.id)
        assert again.startswith("nothing to retry: its 2 runs were retried, the last at ")
        assert " and completed; see mainspring executions show " in again
        past = ["errors", "mute", group.id, "--until", "2020-01-01T00:00Z", "--database-url", url]
        assert await asyncio.to_thread(run_command, past) == 2
        assert "until: '2020-01-01T00:00:00+00:00' is not valid; allowed: a time in the" in capsys.readouterr().err
        [alive] = (await run("workers")).splitlines()[1:]
        assert alive.split()[1] == "alive"
        [silent] = (await run("workers", "list", "--silent")).splitlines()[1:]
        assert silent.split()[:2] == ["gone", "silent"]
