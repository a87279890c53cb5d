"""Jobs edited on the command line, why they do not run, retries that are waited for: in-process, on a SQLite file."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import Execution, Mainspring
from mainspring.cli import main
from tests.support import ended

pytestmark = pytest.mark.req("OPS-4")

URL = "--database-url=sqlite:///shop.db"
Ran = tuple[int, Any, str]


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Ran]]:
    """Runs one command: its exit code, what it says (the data behind it with `-o json`), what it says beside that."""
    monkeypatch.chdir(tmp_path)
    for name in ("MAINSPRING_APP", "MAINSPRING_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    handlers = logging.getLogger("mainspring").handlers[:]

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main([*arguments, URL])
        out, err = capsys.readouterr()
        return code, json.loads(out) if "json" in arguments and out else out, err

    with_app(shop(), lambda app: app.open())
    yield run
    logging.getLogger("mainspring").handlers[:] = handlers


def shop() -> Mainspring:
    app = Mainspring("sqlite:///shop.db", poll_interval="1s")

    @app.job("crawl", cron="0 3 * * *", timeout="10m", params={"url": "http://localhost", "pages": 1})
    async def crawl(url: str, pages: int) -> None: ...

    @app.job("broken", max_attempts=1)
    async def broken() -> None:
        raise ValueError("no such order")

    return app


def with_app(app: Mainspring, work: Callable[[Mainspring], Any]) -> Any:
    async def run() -> Any:
        try:
            return await work(app)
        finally:
            await app.close()

    return asyncio.run(run())


def test_what_is_named_changes_and_the_rest_stays(cli: Callable[..., Ran]) -> None:
    options = ["--option", "max_attempts=5", "--option", "queue=web", "--param", "pages=3", "--timezone", "Asia/Tokyo"]
    code, job, err = cli("jobs", "edit", "crawl", "--schedule", "*/10 * * * *", *options, "-o", "json")
    assert (code, job["schedule"], job["queue"]) == (0, "*/10 * * * *", "web"), err
    assert job["params"] == {"url": "http://localhost", "pages": 3}
    assert "not checked here" in err
    code, job, _ = cli(
        "jobs", "edit", "crawl", "--without", "timeout", "--params", '{"url": "x", "pages": 2}', "-o", "json"
    )
    assert (code, job["queue"], job["params"]) == (0, "web", {"url": "x", "pages": 2})
    code, text, _ = cli("jobs", "show", "crawl")
    shown = " ".join(text.split())
    assert [part in shown for part in ("max attempts 5", "timeout none", "zone Asia/Tokyo")] == [True] * 3, shown
    audited = with_app(shop(), lambda app: app.audits("job:crawl"))
    assert [audit.action for audit in audited] == ["update", "update"]
    assert cli("jobs", "revert", "crawl", "-o", "json")[1]["schedule"] == "0 3 * * *"


REFUSED: list[tuple[list[str], str]] = [
    ([], "nothing to change"),
    (["--option", "max_atempts=5"], "a job has no field 'max_atempts'. Did you mean 'max_attempts'?"),
    (["--without", "shedule"], "Did you mean 'schedule'?"),
    (["--without", "queue"], "queue: None is not valid"),
    (["--schedule", "61 * * * *"], "schedule: '61 * * * *' is not valid"),
    (["--timezone", "Mars/Base"], "timezone: 'Mars/Base' is not valid"),
    (["--option", "max_attempts=0"], "max_attempts: 0 is not valid"),
    (["--option", "max_attempts=2", "--option", "max_retries=2"], "give one of them"),
]


def test_what_is_refused_changes_nothing(cli: Callable[..., Ran]) -> None:
    for arguments, told in REFUSED:
        code, _, err = cli("jobs", "edit", "crawl", *arguments)
        assert (code, told in err) == (2, True), err
    assert with_app(shop(), lambda app: app.audits("job:crawl")) == []


def test_why_a_job_does_not_run(cli: Callable[..., Ran]) -> None:
    cli("jobs", "pause", "crawl", "--note", "the site moves")
    code, found, _ = cli("jobs", "why", "crawl", "-o", "json")
    assert (code, found["job"], found["status"], found["runnable"]) == (0, "crawl", "paused", False)
    assert found["reasons"][0]["code"] == "paused"
    code, text, _ = cli("jobs", "why", "crawl")
    assert code == 0
    assert "the site moves" in text
    assert text.index("can run") < text.index("obstacles") < text.index("the site moves")
    assert cli("jobs", "why", "nobody")[0] == 2


def test_a_retry_is_waited_for(cli: Callable[..., Ran]) -> None:
    """The command waits for an execution that another loop of the same process runs, and fails again."""

    async def failed(app: Mainspring) -> Execution:
        async with app:
            return await ended(app, await app.enqueue("broken"))

    first = with_app(shop(), failed)
    assert cli("executions", "retry", "--job", "broken", "--wait")[0] == 2
    app = shop()
    with app.sync:
        code, again, _ = cli("executions", "retry", first.id, "--wait", "-o", "json")
    assert (code, again["status"], again["retry_of"]) == (1, "failed", first.id)
