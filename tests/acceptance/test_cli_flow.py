"""Templates and many at once on the command line, in-process, on a SQLite file."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.cli import main

URL = "--database-url=sqlite:///shop.db"
APP = "--app=flow_shop:app"
SHOP = """
from mainspring import Mainspring

app = Mainspring("sqlite:///shop.db")

@app.job("crawl")
async def crawl(ctx, url: str, depth: int = 1) -> None: ...

for name in ("north", "south", "west"):
    app.schedule(name, crawl, cron="0 3 * * *", queue="web", params={"url": f"/{name}"})
app.schedule("daily", crawl, cron="0 3 * * *", window="previous_day", params={"url": "/daily"})
app.schedule("mail", crawl, after=["north", "south"], not_before="06:00", params={"url": "/mail"})
"""


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, Any]]]:
    """Runs one command; returns its exit code and what it says: the data behind it with `-o json`."""
    (tmp_path / "flow_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("MAINSPRING_APP", "MAINSPRING_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    handlers = logging.getLogger("mainspring").handlers[:]

    def run(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, json.loads(out) if "json" in arguments and out else out + err

    code, _ = run("jobs", "list", APP)
    assert code == 0
    yield run
    logging.getLogger("mainspring").handlers[:] = handlers


@pytest.mark.req("FLW-5")
def test_templates(cli: Callable[..., tuple[int, Any]]) -> None:
    made = cli(
        *("templates", "create", "nightly", "--handler", "crawl", "--schedule", "30 3 * * *", "--timezone"),
        *(
            "Europe/Paris",
            "--param",
            "depth=2",
            "--option",
            "queue=web",
            "--option",
            "max_retries=5",
            APP,
            "-o",
            "json",
        ),
    )
    assert made[0] == 0
    assert (made[1]["schedule"], made[1]["params"], made[1]["timezone"]) == ("30 3 * * *", {"depth": 2}, "Europe/Paris")
    assert made[1]["options"] == {"max_attempts": 6, "queue": "web"}
    code, said = cli("templates", "show", "nightly", URL)
    assert code == 0
    assert "At 03:30  [30 3 * * *]" in said
    code, job = cli("templates", "apply", "nightly", "crawl-news", "--param", "url=/news", APP, "-o", "json")
    assert (code, job["params"], job["metadata"]) == (0, {"depth": 2, "url": "/news"}, {"template": "nightly"})
    assert cli("templates", "list", URL)[1].split()[:2] == ["TEMPLATE", "HANDLER"]
    code, said = cli("templates", "apply", "nightly", "other", APP)
    assert (code, "url" in said) == (2, True), "a parameter is missing"
    code, said = cli("templates", "create", "wrong", "--handler", "crawl", "--option", "colour=red", APP)
    assert (code, "no field 'colour'" in said) == (2, True)
    code, said = cli("templates", "create", "wrong", "--handler", "crawl", "--schedule", "daily", APP)
    assert (code, "error: --schedule" in said) == (2, True)
    code, new = cli(
        *("templates", "update", "nightly", "--schedule", "@every 2h", "--option", "queue=slow"),
        *("--without", "max_retries", "--without", "timezone", APP, "-o", "json"),
    )
    assert (code, new["schedule"], new["options"], new["params"], new["version"]) == (
        *(0, "@every 2h", {"queue": "slow"}, {"depth": 2}, 2),
    )
    code, said = cli("templates", "update", "nightly", "--without", "queu", APP)
    assert (code, "Did you mean 'queue'?" in said) == (2, True)
    assert cli("templates", "update", "nightly", URL)[0] == 2
    assert cli("templates", "delete", "nightly", URL, "-o", "json") == (0, {"removed": "nightly"})
    assert cli("templates", "show", "nightly", URL)[0] == 2
    assert cli("jobs", "show", "crawl-news", URL)[0] == 0


@pytest.mark.req("FLW-6")
def test_many_jobs_and_executions_at_once(cli: Callable[..., tuple[int, Any]]) -> None:
    assert cli("jobs", "pause", "north", URL)[0] == 0
    code, said = cli("jobs", "pause", "--queue", "web", "--dry-run", URL)
    assert (code, "3 jobs match (queue=web)." in said) == (0, True)
    assert cli("jobs", "pause", "south", "--dry-run", URL)[0] == 0
    code, done = cli("jobs", "pause", "--queue", "web", "--note", "the site moves", "--yes", URL, "-o", "json")
    assert (code, done["done"], done["refused"]) == (1, 2, 1), "a dry run changes nothing, of a named one either"
    code, done = cli("jobs", "resume", "--paused", "--status", "paused", "-y", URL, "-o", "json")
    assert (code, done["status"], done["done"]) == (0, "completed", 3)
    for name in ("north", "south", "west"):
        assert cli("jobs", "trigger", name, URL)[0] == 0
    code, rows = cli("executions", "list", URL, "-o", "json")
    assert code == 0
    code, done = cli("executions", "cancel", rows[0]["id"], rows[1]["id"], "--note", "enough", URL, "-o", "json")
    assert (code, done["done"]) == (0, 2)
    code, done = cli("executions", "retry", "--status", "cancelled", "--job", "west", "-y", URL, "-o", "json")
    assert (code, done["done"] in (0, 1)) == (0, True)
    code, done = cli("jobs", "cancel", "west", "nope", URL, "-o", "json")
    assert (code, [each["done"] for each in done["results"]]) == (1, [True, False])
    assert "no job named 'nope'" in done["results"][1]["error"]
    for wrong in (
        ["pause"],
        ["pause", "a", "--queue", "x"],
        ["cancel", "--queue", "x"],
        ["remove", "a", "b", "--force"],
    ):
        assert cli("jobs", *wrong, URL)[0] == 2


@pytest.mark.req("FLW-1")
def test_a_job_is_shown_with_what_it_comes_after_and_what_comes_after_it(cli: Callable[..., tuple[int, Any]]) -> None:
    said = " ".join(cli("jobs", "show", "mail", URL)[1].split())
    assert "after north and south, not before 06:00; skipped if one of them did not complete" in said
    assert "schedule on demand" not in said
    assert "dependents mail" in " ".join(cli("jobs", "show", "north", URL)[1].split())
    assert "after north, south" in cli("jobs", "list", URL)[1]


@pytest.mark.req("OPS-4")
def test_programs_get_json_from_every_command(cli: Callable[..., tuple[int, Any]], tmp_path: Path) -> None:
    for command in ("skip", "restore", "skip"):
        code, job = cli("jobs", command, "north", "--at", "2099-03-01T03:00Z", URL, "-o", "json")
        assert (code, job["id"], len(job["occurrences"])) == (0, "north", int(command == "skip"))
    code, job = cli(
        *("jobs", "move", "south", "--at", "2099-03-01T03:00Z", "--to", "2099-03-01T05:00Z", URL, "-o", "json")
    )
    assert (code, job["occurrences"][0]["to"]) == (0, "2099-03-01T05:00:00Z")
    code, started = cli(
        *("backfill", "start", "daily", "--from", "2026-01-01", "--to", "2026-01-03", APP, "-o", "json")
    )
    assert (code, started["total"]) == (0, 2)
    for command, status in (("pause", "paused"), ("show", "paused"), ("cancel", "cancelled")):
        code, shown = cli("backfill", command, started["id"], URL, "-o", "json")
        assert (code, shown["id"], shown["status"]) == (0, started["id"], status)
    code, rules = cli("alerts", "export", URL, "-o", "json")
    assert (code, "mainspring job north" in {group["name"] for group in rules["groups"]}) == (0, True)
    code, board = cli("grafana", "export", URL, "-o", "json")
    assert (code, "panels" in board, (tmp_path / "json").exists()) == (0, True, False)
    code, said = cli("grafana", "export", URL, "--to", "missing/board.txt")
    assert (code, "there is no directory 'missing'" in said) == (2, True)
    assert cli("jobs", "skip", "north", "--at", "2099-03-01T03:00Z", "--app=nobody:app")[1].startswith("error: MODULE")


@pytest.mark.req("FLW-1")
def test_a_job_is_reverted_and_one_that_others_come_after_is_removed_only_by_force(
    cli: Callable[..., tuple[int, Any]],
) -> None:
    with Mainspring("sqlite:///shop.db", prune=False).sync as shop:
        shop.update_job("mail", after=["north", "west"])
    assert cli("jobs", "revert", "mail", URL, "-o", "json")[1]["after"] == ["north", "south"]
    code, said = cli("jobs", "remove", "north", URL)
    assert (code, "it is followed by mail; remove is possible when no job comes after it" in said) == (1, True)
    code, said = cli("jobs", "remove", "north", "--force", URL)
    assert (code, "warning: mail came after it, and will not follow" in said) == (0, True)
