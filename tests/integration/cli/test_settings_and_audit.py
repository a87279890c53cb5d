"""`mainspring config show` and `mainspring audit` in this process, against a database of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.cli.root import run_command

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, code: int = 0) -> str:
        found = run_command(list(arguments))
        output = capsys.readouterr()
        assert found == code, output
        return output.out

    return call


@pytest.mark.req("OPS-2", "OPS-4")
def test_config_show_names_the_origin_of_every_setting(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mainspring.toml").write_text('lease = "1m"\n[retry]\nmax_attempts = 4\n')
    (tmp_path / "own_app.py").write_text(
        "from mainspring import Mainspring\napp = Mainspring('postgresql://ana:geheim@db/jobs', concurrency=7)\n"
    )
    monkeypatch.setenv("MAINSPRING_PORT", "8701")
    monkeypatch.syspath_prepend(str(tmp_path))

    answer = json.loads(run("config", "show", "--app", "own_app:app", "-o", "json"))
    found = {each["name"]: each for each in answer["settings"]}
    assert answer["file"] == str(tmp_path / "mainspring.toml")
    origins = {name: (each["value"], each["origin"], each["source"]) for name, each in found.items()}
    assert origins["concurrency"] == (7, "argument", "argument concurrency")
    assert origins["port"] == (8701, "environment", "MAINSPRING_PORT")
    assert origins["lease"] == (60.0, "file", "mainspring.toml, lease")
    assert origins["retry_max_attempts"] == (4, "file", "mainspring.toml, [retry] max_attempts")
    assert origins["heartbeat"] == (20.0, "derived", "follows lease")
    assert origins["poll_interval"] == (10.0, "default", "default")
    assert found["lease"]["default"] == 30.0

    table = run("config", "show", "--origin", "--changed", "--app", "own_app:app")
    assert "geheim" not in table
    assert "postgresql://ana:***@db/jobs" in table
    assert "poll_interval" not in table
    assert "MAINSPRING_PORT" in table
    assert "how long a worker owns an execution" in run("config", "show")


@pytest.mark.req("OPS-4")
def test_audit_filters_and_goes_on_from_a_cursor(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'audit.db'}"
    monkeypatch.setenv("MAINSPRING_DATABASE_URL", url)
    app = Mainspring(url, roles=())
    app.job("crawl", queue="web")(lambda: None)
    with app.sync:
        app.sync.start()
        app.sync.update_job("crawl", queue="slow", by="ana")
        app.sync.pause("crawl", by="ben", note="site moves")
        app.sync.queues.pause("web", by="ana")

    table = run("audit")
    assert "ana" in table
    assert "queue web" in table
    actions = [each["action"] for each in json.loads(run("audit", "--job", "crawl", "-o", "json"))["items"]]
    assert actions == ["pause", "update"]
    by_ana = json.loads(run("audit", "--by", "ana", "--since", "1h", "--limit", "1", "-o", "json"))
    assert [each["target"] for each in by_ana["items"]] == ["queue:web"]
    rest = json.loads(run("audit", "--by", "ana", "--cursor", by_ana["next_cursor"], "-o", "json"))
    assert [(each["action"], each["target"]) for each in rest["items"]] == [("update", "job:crawl")]
    assert run("audit", "--action", "pause", "--until", "1d") == "No record matches.\n"
    run("audit", "--job", "crawl", "--target", "queue:web", code=2)
