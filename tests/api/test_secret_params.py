"""Secret parameters from end to end: whatever is done with a job, no answer, page, screen, webhook or log line shows
them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from mainspring import Mainspring, NonRetryable, Secret
from mainspring.cli.root import run_command
from mainspring.core.rules.secret_params import CHANGED
from mainspring.model.values.access import HIDDEN, Role
from tests.api.client import Client, client_of
from tests.api.dashboard_crawler import Crawl
from tests.dashboard.support import Pages, notice_of, pages_of
from tests.receiver import receiving
from tests.support import Nodes, until

pytestmark = pytest.mark.req("SEC-4")

MARKER = "hunter2-7c1f"
"""Part of every secret."""
ENDLESS = {"/dashboard/live", "/dashboard/executions/{id}/stream"}
"""Streams that say which parts of an open page have changed, until the browser leaves."""


def secret(number: int) -> str:
    return f"{MARKER}-{number}"


def _shop(app: Mainspring, seen: list[tuple[str, str]]) -> None:
    @app.job("pay", max_attempts=1, secret="card.number", search="order")
    async def pay(ctx: Any, key: Secret, card: dict[str, Any], order: int = 1, good: bool = False) -> None:
        ctx.logger.info("paying order %s with %s", order, key)
        seen.append((key.reveal(), card["number"]))
        if not good:
            raise NonRetryable("declined")

    @app.job("report", cron="0 3 * * *", window="yesterday", params={"key": secret(1)})
    async def report(key: Secret) -> None: ...

    @app.job("open", secret=("api_key", "login.password"), params={"api_key": secret(2), "url": "/"})
    async def open_to_all(**data: Any) -> None: ...


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


async def _use_api(client: Client, app: Mainspring) -> list[str]:
    """Everything that can be done over HTTP; what was answered."""
    answers: list[str] = []

    async def ask(status: int, method: str, path: str, body: Any = None) -> Any:
        answer = await client.ask(method, f"/api/v1/{path}", **({} if body is None else {"json": body}))
        assert answer.status_code == status, (path, answer.text)
        answers.append(answer.text)
        return answer.json() if answer.content else None

    params = {"key": secret(3), "card": {"number": secret(4), "holder": "Ada"}}
    made = await ask(202, "POST", "jobs/pay/trigger", {"params": params})
    failed = await app.wait(made["execution_id"], timeout=60)
    assert failed.state == "failed"
    edited = {"key": HIDDEN, "card": {"number": secret(5), "holder": "Ada"}, "good": True}
    again = await ask(202, "POST", f"executions/{failed.id}/retry", {"params": edited})
    assert again["execution"]["edited"]["card"]["after"] == {"number": CHANGED, "holder": "Ada"}
    await app.wait(again["execution_id"], timeout=60)

    second = await ask(202, "POST", "jobs/pay/trigger", {"params": {**params, "order": 2}})
    await app.wait(second["execution_id"], timeout=60)
    new = {"key": secret(6), "card": {"number": secret(6)}}
    change = {"target": "executions", "action": "edit", "filter": {"search": ["order=2"]}, "params": new}
    bulk = await ask(202, "POST", "bulk", change)
    await app.bulk.wait(bulk["id"], timeout=60)

    await ask(200, "PUT", "jobs/report", {"params": {"key": secret(7)}})
    await ask(200, "PUT", "jobs/report", {"params": {"key": HIDDEN}, "queue": "slow"})
    await ask(201, "POST", "templates", {"name": "mine", "handler": "open", "params": {"api_key": secret(8)}})
    await ask(201, "POST", "templates/mine/jobs", {"name": "made", "schedule": "0 4 * * *"})
    await ask(201, "POST", "jobs", {"name": "own", "handler": "open", "params": {"login": {"password": secret(9)}}})
    range_ = {"job": "report", "begin": "2026-03-01", "end": "2026-03-02", "params": {"key": secret(10)}}
    await ask(201, "POST", "backfills", range_)
    for wrong in ({"key": [secret(11)], "card": {}}, {"key": HIDDEN, "card": {}}, {**params, "card": secret(12)}):
        await ask(400, "POST", "jobs/pay/trigger", {"params": wrong})
    await ask(400, "POST", "jobs", {"handler": "open", "params": {"api_key": HIDDEN}})
    for wrong in ({"params": secret(14)}, {"params": [secret(15)]}, {"api_key": secret(16)}, [{"api_key": secret(17)}]):
        await ask(400, "POST", "jobs/open/trigger", wrong)
    await ask(400, "POST", "bulk", {"action": "edit", "params": new})
    await ask(400, "PUT", "jobs/report", {"params": {"key": {"x": secret(13)}}})
    return answers


async def _use_dashboard(pages: Pages, app: Mainspring) -> None:
    form = await pages.get("jobs/pay")
    assert '<input type="password" name="param.key"' in form
    made = await pages.send(
        "jobs/pay/trigger", **{"param.key": secret(20), "param.card": json.dumps({"number": secret(21)})}
    )
    failed = made.headers["location"].rpartition("/")[2]
    await app.wait(failed, timeout=60)
    shown = {"key": HIDDEN, "card": {"number": HIDDEN}}
    preview = await pages.send(f"executions/{failed}/edit", params=json.dumps({**shown, "good": True}), step="preview")
    assert MARKER not in preview.text
    typed = json.dumps({"key": HIDDEN, "card": {"number": secret(22)}, "good": True})
    again = await pages.send(f"executions/{failed}/edit", params=typed, step="retry")
    notice_of(again)
    await app.wait(again.headers["location"].rpartition("/")[2], timeout=60)

    view = await app.job_view("report")
    fields = {"schedule": "0 3 * * *", "timezone": "UTC", "schedule_enabled": "1", "queue": "slow", "max_retries": "2"}
    fields |= {"retry": "queue", "overlap": "skip", "seen": view.tag}
    notice = await pages.act("jobs/report/edit", **fields, params=json.dumps({"key": secret(23)}))
    assert MARKER not in json.dumps(notice)
    assert (await app.job_view("report")).params == {"key": secret(23)}
    view = await app.job_view("report")
    fields |= {"queue": "web", "seen": view.tag}
    await pages.act("jobs/report/edit", **fields, params=json.dumps({"key": HIDDEN}))
    assert (await app.job_view("report")).params == {"key": secret(23)}
    await pages.act("jobs/open/trigger", params=json.dumps({"url": "/other", "api_key": HIDDEN}))
    await pages.act("jobs/report/trigger", **{"param.key": ""})

    page = await pages.get("bulk/new?target=executions&action=edit&job=pay")
    assert MARKER not in page
    started = await pages.send(
        "bulk/new?target=executions&action=edit&job=pay&status=failed",
        step="start",
        params=json.dumps({"key": secret(24), "good": True}),
    )
    notice_of(started)
    await app.bulk.wait(started.headers["location"].rpartition("/")[2], timeout=60)


async def _every_address(app: Mainspring) -> list[str]:
    """Every GET route, with the names and ids of everything there is."""
    executions = [each.id for each in await app.executions(limit=200, system=True)]
    groups = [each.id for each in await app.errors.all()]
    known = {
        "jobs": [each.name for each in await app.jobs()],
        "executions": executions,
        "bulk": [each.id for each in await app.bulk.recent()],
        "backfills": [each.id for each in await app.backfills.recent()],
        "templates": ["mine"],
        "errors": groups,
        "queues": ["default", "slow"],
        "webhooks": ["all"],
    }
    found = []
    for route in app.asgi().routes:
        if not isinstance(route, APIRoute) or "GET" not in (route.methods or ()) or route.path in ENDLESS:
            continue
        path = route.path.replace("{rest:path}", "x")
        if "{" not in path:
            found.append(path)
            continue
        area = path.removeprefix("/api/v1/").removeprefix("/dashboard/").partition("/")[0]
        names = known.get(area, [])
        found += [path.replace("{id}", name).replace("{name}", name) for name in names]
    return found


async def test_nothing_shows_a_secret(nodes: Nodes, log: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, str]] = []
    app = nodes.app(roles="scheduler,worker", private_urls=True)
    _shop(app, seen)
    async with receiving() as receiver, app:
        await app.webhooks.create(receiver.url("/all"), id="all")
        async with client_of(app) as client, pages_of(app) as pages:
            answers = await _use_api(client, app)
            assert [text for text in answers if MARKER in text] == []
            await _use_dashboard(pages, app)
            addresses = await _every_address(app)
            assert len(addresses) > 80
            found = {each: await pages.http.get(each, headers={"Accept": "*/*"}) for each in addresses}
            assert [each for each, answer in found.items() if MARKER in answer.text] == []
            assert [each for each, answer in found.items() if answer.status_code >= 500] == []
            assert sum(answer.status_code == 200 for answer in found.values()) > 80
            crawl = await Crawl(pages.http, "/dashboard").read()
            assert [path for path, page in crawl.pages.items() if MARKER in page.text] == []
            assert HIDDEN in "".join(page.text for page in crawl.pages.values())
        # each secret arrived, in its last version and in every one that it replaced
        pairs = [(secret(3), secret(4)), (secret(3), secret(5)), (secret(20), secret(21)), (secret(20), secret(22))]
        assert [pair for pair in pairs if pair not in seen] == []
        assert any(key in (secret(6), secret(24)) for key, _ in seen)
        await until(lambda: "execution.failed" in receiver.types("/all"), "the endpoint hears of the failures")
        assert [each for each in receiver.messages if MARKER.encode() in each.body] == []
    assert [record.getMessage() for record in log.records if MARKER in record.getMessage()] == []
    assert MARKER not in log.text


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
async def test_no_role_reads_it(memory_nodes: Nodes, role: Role) -> None:
    app = memory_nodes.app(api_tokens=True)
    _shop(app, [])
    await app.enqueue("open", {"login": {"password": secret(1), "user": "ada"}})
    async with pages_of(app, role) as pages:
        for path in ("jobs", "jobs/open", "executions"):
            assert MARKER not in await pages.get(path)
        token = (await app.tokens.create("reader", role)).text.reveal()
        headers = {"authorization": f"Bearer {token}"}
        found = (await pages.http.get("/api/v1/executions", headers=headers)).json()["items"][0]["params"]
        assert found == {"api_key": HIDDEN, "url": "/", "login": {"password": HIDDEN, "user": "ada"}}
    await app.close()


async def test_parameters_at_the_top_level_are_masked_too(memory_nodes: Nodes) -> None:
    """Where requests give parameters as fields of their own."""
    app = memory_nodes.app(api_handler="open")
    _shop(app, [])
    async with client_of(app) as client:
        made = await client.post("/api/v1/jobs", {"name": "mine", "api_key": secret(1), "schedule": "0 3 * * *"})
        assert (made["api_key"], made["params"]["api_key"]) == (HIDDEN, HIDDEN)
        kept = await client.put("/api/v1/jobs/mine", {"api_key": HIDDEN, "url": "/new"})
        assert (await app.job_view("mine")).params == {"api_key": secret(1), "url": "/new"}
        assert MARKER not in json.dumps(kept)
    await app.close()


def test_the_command_line_shows_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    log: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    nodes = Nodes("sqlite", tmp_path)
    url = nodes.url

    async def fail() -> str:
        app = nodes.app(roles="worker")
        _shop(app, [])
        async with app:
            made = await app.enqueue("pay", {"key": secret(1), "card": {"number": secret(2), "holder": "Ada"}})
            return (await app.wait(made, timeout=60)).id

    failed = asyncio.run(fail())

    def run(*arguments: str, code: int = 0) -> str:
        found = run_command([*arguments, "--database-url", url])
        output = capsys.readouterr()
        assert found == code, (arguments, output)
        assert MARKER not in output.out + output.err, arguments
        return output.out + output.err

    for form in ((), ("-o", "json")):
        for command in (
            *(("jobs", "list"), ("jobs", "show", "open"), ("jobs", "show", "report"), ("executions", "list")),
            *(("executions", "show", failed), ("templates", "list"), ("changes",), ("bulk", "list")),
        ):
            run(*command, *form)
    assert f'"number": "{HIDDEN}"' in run("executions", "show", failed, "-o", "json")
    run(
        "executions",
        "retry",
        failed,
        "--set",
        f"key={HIDDEN}",
        "--set-json",
        json.dumps({"card": {"number": secret(3)}}),
    )
    run("jobs", "edit", "report", "--param", f"key={secret(4)}")
    run("jobs", "edit", "report", "--param", f"key={HIDDEN}", "--option", "queue=slow", "-o", "json")
    run("jobs", "trigger", "open", "--params", json.dumps({"api_key": secret(5)}))
    assert "give the secret itself" in run("jobs", "trigger", "open", "--param", f"api_key={HIDDEN}", code=2)
    run("templates", "create", "mine", "open", "--params", json.dumps({"api_key": secret(6)}), code=2)  # no such worker
    for command in (("jobs", "show", "report"), ("executions", "list"), ("changes",)):
        run(*command)
        run(*command, "-o", "json")
    assert MARKER not in log.text
