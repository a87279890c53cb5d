"""`/api/v1/problems` and `mainspring problems`: what needs attention, over HTTP and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainspring import Mainspring, every
from mainspring.cli.root import run_command
from mainspring.cli.screens.problems import COMMANDS
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from tests.api.access_support import SECRET, STRANGER, ask, signed
from tests.api.client import client_of
from tests.support import ON_A_FAKE_CLOCK

pytestmark = pytest.mark.req("DSH-1", "API-8", "OPS-4")

PATH = "/api/v1/problems"


async def test_problems_over_http_without_names_for_viewers() -> None:
    clock, admin = FakeClock(), {"Authorization": f"Bearer {signed(role='admin')}"}
    app = Mainspring(MemoryStore(clock), clock=clock, jwt_secret=SECRET, **ON_A_FAKE_CLOCK)
    app.job("send", queue="mail")(lambda: None)
    try:
        async with client_of(app) as client:
            assert (await client.get(PATH, headers=admin))["problems"] == []
            await app.enqueue("send")
            await app.queues.pause("mail", note="server down", by="token of ann")
            clock.advance("2m")
            answer = await client.get(PATH, headers=admin)
        [problem] = answer["problems"]
        assert (answer["left_out"], answer["checked_at"]) == (0, "2026-01-01T00:02:00Z")
        assert problem == {
            "kind": "paused_queue",
            "severity": "warn",
            "subject": {"kind": "queue", "name": "mail", "id": None},
            "text": "is paused while work waits",
            "evidence": "1 ready; server down",
            "since": "2026-01-01T00:00:00Z",
            "count": 1,
            "fix": "resume",
            "by": "token of ann",
            "details": {"note": "server down", "resume_at": None},
        }
        seen = await ask(app.asgi(), PATH, peer=STRANGER, bearer=signed(role="viewer"))
        assert seen.status == 200
        assert seen.body["problems"] == [problem | {"by": None}]
    finally:
        await app.close()


def test_problems_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("mainspring.core.rules.problems.LEAST_FREE", 0)
    monkeypatch.setattr("mainspring.core.rules.problems.LEAST_FREE_SHARE", 0.0)
    url = f"sqlite:///{tmp_path / 'problems.db'}"

    def run(*arguments: str) -> str:
        code = run_command(["problems", *arguments, "--database-url", url])
        output = capsys.readouterr()
        assert code == 0, output
        return output.out

    app = Mainspring(url, roles=())
    app.job("send", queue="mail")(lambda: None)
    with app.sync:
        app.sync.open()
    assert run() == "Nothing needs attention.\n"
    assert json.loads(run("-o", "json"))["problems"] == []

    app = Mainspring(url, roles=())
    app.job("send", queue="mail")(lambda: None)
    app.job("tick", trigger=every(hours=1))(lambda: None)
    with app.sync:
        app.sync.enqueue("send")
        app.sync.queues.pause("mail", note="server down", by="ann")
        kinds = [each.kind for each in app.sync.monitoring.problems().problems]
    assert kinds == ["no_scheduler", "paused_queue"]
    lines = [line.rstrip() for line in run().splitlines()]
    assert lines[0] == "bad   store has jobs with schedules, but no scheduler is running"
    assert lines[1].startswith("      no process is running")
    at = lines.index("warn  queue mail is paused while work waits")
    assert "1 ready; server down, since " in lines[at + 1]
    assert lines[at + 1].endswith("by ann")
    assert lines[at + 2] == "      mainspring queues resume mail"
    assert [each["kind"] for each in json.loads(run("-o", "json"))["problems"]] == kinds


@pytest.mark.parametrize("command", sorted({" ".join(each.split()[:2]) for each in COMMANDS.values()}))
def test_the_commands_that_it_names_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("queue", "handler"):
        assert run_command([*command.format(kind=kind).split(" --")[0].split(), "--help"]) == 0
