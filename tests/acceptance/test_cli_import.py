"""Imports of a crontab and of cron rows, taken back again: in-process, on a SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli import main
from tests.acceptance.importing import Run, imports_into, jobs
from tests.servers import postgres

pytestmark = pytest.mark.req("MIG-1", "OPS-4")

SHOP = """
from mainspring import Mainspring

app = Mainspring("sqlite:///shop.db")


@app.job("shell")
async def shell(command: str) -> None: ...


@app.job("report", cron="0 3 * * *")
async def report(kind: str = "short") -> None: ...
"""
CRONTAB = """
0 * * * *    /opt/shop/refresh
0 0 * * *    /opt/shop/close-day
0 */6 * * *  /opt/shop/sync
*/7 * * * *  /opt/shop/poll
0 9 * * 1-5  /opt/shop/greet
@reboot      /opt/shop/warm-up
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    (tmp_path / "crontab").write_text(CRONTAB)
    with imports_into(SHOP, tmp_path, monkeypatch, capsys) as run:
        yield run


def actions(report: Any) -> list[tuple[str, str, int | None]]:
    return [(row["action"], row["becomes"], row["interval_minutes"]) for row in report["rows"]]


EXPECTED = [
    ("create", "every 60 min", 60),
    ("create", "every 1440 min", 1440),
    ("create", "every 360 min", 360),
    ("create", "*/7 * * * *", None),
    ("create", "0 9 * * 1-5", None),
    ("review", "-", None),
]


def test_the_list_says_which_jobs_were_imported_disabled(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("import", "crontab", "crontab", "--handler", "shell", "--disabled")
    assert main(["jobs", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert sum("(disabled)" in line for line in lines) == 5


def test_a_crontab_is_imported_once_and_taken_back(run: Run) -> None:
    planned = run("import", "crontab", "crontab", "--handler", "shell", "--dry-run")
    assert actions(planned) == EXPECTED
    assert not list(Path.cwd().glob("shop.db*")), "a dry run creates no database"
    jobs(run)
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.execute("DELETE FROM mainspring_jobs")  # as before a deploy that declares them
        connection.commit()
        planned = run("import", "crontab", "crontab", "--handler", "shell", "--dry-run")
        assert connection.execute("SELECT count(*) FROM mainspring_jobs").fetchone() == (0,), "it declares no jobs"
    assert actions(planned) == EXPECTED
    before = jobs(run)
    run("import", "crontab", "crontab", "--handler", "shell", "--dry-run")
    assert "7 minutes apart" in planned["rows"][3]["reason"]
    assert "@reboot" in planned["rows"][5]["reason"]
    assert planned["results"] == {"exact": 5, "changed": 0, "needs review": 1}
    assert jobs(run) == before, "a dry run changes nothing"

    done = run("import", "crontab", "crontab", "--handler", "shell")
    assert actions(done) == EXPECTED
    made = jobs(run)
    tries = {name: job["policy"]["max_attempts"] for name, job in made.items() if name not in before}
    assert set(tries.values()) == {3}, "as a job that is declared with a schedule"
    assert any("3 attempts" in each for each in done["notes"])
    assert made.keys() - before.keys() == {row["job"] for row in done["rows"][:5]}
    hourly = made[done["rows"][0]["job"]]
    assert (hourly["interval_minutes"], hourly["interval_type"]) == (60, "minutes")
    assert hourly["params"] == {"command": "/opt/shop/refresh"}

    again = run("import", "crontab", "crontab", "--handler", "shell")
    assert (again["import"], again["counts"]) == (None, {"create": 0, "update": 0, "unchanged": 5, "review": 1})

    run("jobs", "pause", done["rows"][4]["job"])
    undone = run("import", "crontab", "--undo", code=1)
    assert undone["import"] == done["import"]
    assert sorted(each["outcome"] for each in undone["jobs"]) == ["kept", *["removed"] * 4]
    assert jobs(run).keys() - before.keys() == {done["rows"][4]["job"]}, "an operator has changed it"
    with closing(sqlite3.connect("shop.db")) as connection:
        recorded = dict(connection.execute("SELECT action, count(*) FROM mainspring_audit GROUP BY action").fetchall())
    assert recorded == {"create": 5, "import": 1, "pause": 1, "remove": 4, "undo_import": 1}


ROWS = [
    {"name": "report", "schedule_time": "0 */6 * * *", "enabled": 0, "parameters": '{"kind": "long"}'},
    {"name": "list-files", "schedule_time": "0 * * * *", "enabled": 1, "parameters": '{"command": "ls"}'},
    {"name": "asleep", "schedule_time": "30 2 * * *", "enabled": 0, "parameters": '{"command": "rest"}'},
    {"name": "odd", "schedule_time": "every day", "enabled": 1, "parameters": None},
]


@pytest.mark.parametrize("form", ["csv", "json", "sqlite", "postgres"])
def test_rows_edit_and_create_jobs_and_are_taken_back(run: Run, tmp_path: Path, form: str) -> None:
    arguments = _source(form, tmp_path)
    before = jobs(run)
    done = run("import", "cron-rows", *arguments, "--handler", "shell")
    assert actions(done) == [
        ("update", "every 360 min", 360),
        ("create", "every 60 min", 60),
        ("create", "every 1440 min", 1440),
        ("review", "-", None),
    ]
    made = jobs(run)
    assert (made["report"]["interval_minutes"], made["report"]["schedule_enabled"]) == (360, False)
    assert made["report"]["params"] == {"kind": "long"}
    assert made["asleep"]["schedule_enabled"] is False
    assert run("executions", "list") == [], "an import runs nothing"
    assert run("import", "cron-rows", *arguments, "--handler", "shell")["import"] is None
    undone = run("import", "cron-rows", "--undo")
    assert {each["job"]: each["outcome"] for each in undone["jobs"]} == {
        "report": "restored",
        "list-files": "removed",
        "asleep": "removed",
    }
    assert jobs(run) == before
    assert main(["import", "cron-rows", "--undo"]) == 2, "there is nothing left to undo"


def _source(form: str, folder: Path) -> list[str]:
    columns = list(ROWS[0])
    if form == "json":
        (folder / "rows.json").write_text(json.dumps(ROWS))
        return ["rows.json"]
    if form == "csv":
        quoted = [
            ",".join('"' + ("" if row[name] is None else str(row[name])).replace('"', '""') + '"' for name in columns)
            for row in ROWS
        ]
        (folder / "rows.csv").write_text("\n".join([",".join(columns), *quoted]))
        return ["rows.csv"]
    table = "CREATE TABLE cron_jobs (name text, schedule_time text, enabled int, parameters text)"
    values = [tuple(row[name] for name in columns) for row in ROWS]
    query = ["--query", "SELECT * FROM cron_jobs"]
    if form == "sqlite":
        with closing(sqlite3.connect(folder / "old.db", isolation_level=None)) as connection:
            connection.execute(table)
            connection.executemany("INSERT INTO cron_jobs VALUES (?, ?, ?, ?)", values)
        return ["--from", "sqlite:///old.db", *query]
    url = postgres().new_database()
    name = url.rpartition("/")[2]
    postgres().execute(table, name)
    for value in values:
        literal = ", ".join("NULL" if each is None else f"'{each}'" for each in value)
        postgres().execute(f"INSERT INTO cron_jobs VALUES ({literal})", name)
    return ["--from", url, *query]
