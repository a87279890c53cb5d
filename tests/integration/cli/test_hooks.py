"""`mainspring hooks` in this process, against a database of its own."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.cli.root import run_command
from mainspring.webhooks import new_secret

pytestmark = pytest.mark.req("WHK-2")

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'hooks.db'}"
    app = Mainspring(url)
    app.job("deploy")(lambda payload, event: None)
    app.sync.jobs()
    app.sync.close()

    def call(*arguments: str, code: int = 0, given: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        found = run_command(["hooks", *arguments, "--database-url", url])
        output = capsys.readouterr()
        assert found == code, output
        return output.out + output.err

    return call


def test_hooks_are_set_shown_rotated_and_removed(run: Run) -> None:
    assert "hooks set NAME --job JOB" in run("list")
    secret, line = run("set", "github", "--job", "deploy", "--style", "github").splitlines()
    assert secret.startswith("whsec_")
    assert "/hooks/github trigger deploy (--app MODULE:APP checks" in line
    own = new_secret()
    assert own not in run("rotate", "github", "--overlap", "1h", "--secret-file", "-", given=f"{own}\n")
    shown = json.loads(run("show", "github", "-o", "json"))
    assert (shown["job"], len(shown["secrets"])) == ("deploy", 2)
    screen = run("show", "github") + run("list")
    assert all(word in screen for word in ("POST /hooks/github", "deploy", "enabled", "until", "STYLE"))
    assert secret not in screen
    assert json.loads(run("set", "github", "--job", "deploy", "--style", "github", "--disabled", "-o", "json")) == {
        **json.loads(run("show", "github", "-o", "json")),
        "secret": None,
    }
    assert "disabled" in run("list")
    assert "removed" in run("remove", "github")


def test_what_is_refused_names_the_remedy(run: Run) -> None:
    assert "no hook named 'nope'" in run("show", "nope", code=2)
    assert "no job named 'depoly'; did you mean 'deploy'?" in run("set", "a", "--job", "depoly", code=2)
    assert "Stripe shows" in run("set", "a", "--job", "deploy", "--style", "stripe", code=2)
    assert "24 to 64 random bytes" in run("set", "a", "--job", "deploy", "--secret-file", "-", code=2, given="abc")
