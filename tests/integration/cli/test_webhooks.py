"""`mainspring webhooks` in this process, against a database of its own and a worker in another thread."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.cli.root import run_command
from mainspring.model.execution import State
from tests.support import until_blocking

pytestmark = pytest.mark.req("WHK-1")

Run = Callable[..., str]


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(500 if "/bad" in self.path else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Mainspring]:
    made = Mainspring(f"sqlite:///{tmp_path / 'webhooks.db'}", private_urls=True)
    made.job("good")(lambda: None)
    with made.sync:
        yield made


@pytest.fixture
def run(app: Mainspring, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MAINSPRING_PRIVATE_URLS", "true")

    def call(*arguments: str, code: int = 0, given: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        found = run_command(["webhooks", *arguments, "--database-url", f"sqlite:///{tmp_path / 'webhooks.db'}"])
        output = capsys.readouterr()
        assert found == code, output
        return output.out + output.err

    return call


def test_webhooks_from_creation_to_replay(run: Run, address: str, app: Mainspring) -> None:
    assert "webhooks create URL" in run("list")
    secret, line = run("create", f"{address}/ok", "--id", "ok", "--event", "execution.completed").splitlines()
    assert (secret[:6], "not shown again" in line) == ("whsec_", True)
    made = json.loads(run("create", "-", "--id", "bad", "--job", "good", "-o", "json", given=f"{address}/bad\n"))
    assert made["secret"].startswith("whsec_")
    assert run("create", f"{address}/ok", "--scheme", "v1a", "--id", "keys").startswith("whpk_")
    assert "delivered: 204 after" in run("test", "ok")
    assert "not delivered: the receiver answered 500" in run("test", "bad", code=1)
    assert "no webhook named 'badd'; did you mean 'bad'?" in run("test", "badd", code=2)
    app.sync.wait(app.sync.trigger("good"), 60)
    until_blocking(lambda: "failing" in run("list"))

    def tried() -> bool:
        return any(each.state is State.PENDING and each.attempts for each in app.sync.webhooks.deliveries("bad"))

    until_blocking(tried)
    listed = run("deliveries", "bad")
    assert re.search(r"\n…[0-9a-f]{12} +execution.completed +pending +[12] +[0-9:]{8} +500 ", listed)
    waiting = app.sync.webhooks.deliveries("bad", status="pending")[0].attempts[0]
    assert (waiting.error, waiting.traceback) == ("the receiver answered 500", None)
    assert all(word in listed for word in ("execution.completed", "webhook.test", "NEXT TRY"))
    assert "disabled" in run("disable", "bad", "--note", "it moves")
    assert "disabled (it moves)" in run("show", "bad")
    assert [each["status"] for each in json.loads(run("deliveries", "bad", "--status", "cancelled", "-o", "json"))]
    edited = json.loads(
        run("edit", "bad", "--url", f"{address}/ok", "--all", "jobs", "--event", "job.paused", "-o", "json")
    )
    assert (edited["jobs"], edited["events"]) == ([], ["job.paused"])
    assert "enabled" in run("enable", "bad")
    assert "Nothing matches" in run("replay", "bad", "--until", "2020-01-01T00:00:00Z")
    assert "replay: 1 done, 0 refused" in run("replay", "bad")  # not the test, and not twice
    assert "Nothing matches" in run("replay", "bad")

    def arrived() -> bool:
        return len([1 for each in app.sync.webhooks.deliveries("bad") if each.state is State.COMPLETED]) == 1

    until_blocking(arrived)
    assert "Nothing matches" in run("replay", "bad")
    assert run("rotate", "ok", "--overlap", "1h").startswith("whsec_")
    screen = run("show", "ok") + run("list")
    assert all(word in screen for word in ("the previous one signs until", "127.0.0.1", "execution.completed"))
    assert "/ok" not in screen
    assert secret not in screen
    assert "removed" in run("remove", "ok")


def test_what_is_refused_names_the_remedy(run: Run) -> None:
    assert "nothing to change" in run("edit", "ok", code=2)
    assert "without user or password" in run("create", "ftp://127.0.0.1/secret", code=2)
    assert "Did you mean 'execution.failed'?" in run(
        "create", "http://127.0.0.1/", "--event", "execution.faild", code=2
    )
    assert "until there is such a job: no job named 'goood'; did you mean 'good'?" in run(
        "create", "https://127.0.0.1/", "--id", "chat", "--format", "slack", "--job", "goood"
    )
    assert "of the format slack, which is not signed; rotate is possible when its format" in run(
        "rotate", "chat", code=1
    )
    assert "smtp_url" in run("create", "mailto:ops@example.com", "--format", "email", code=2)
