"""`mainspring doctor` as people and programs see it."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mainspring.cli.root import run_command

SHOP = """
from mainspring import Mainspring, every
app = Mainspring("sqlite:///shop.db", lease="5s")

@app.job("sync", trigger=every(minutes=5), params={"password": "hunter2"})
async def sync(ctx, password: str) -> None: ...
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "doctors_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    yield
    logging.getLogger("mainspring").handlers.clear()


def doctor(*arguments: str) -> int:
    return run_command(["doctor", *arguments])


@pytest.mark.req("DEV-2", "OPS-4")
def test_findings_come_first_and_everything_fits_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["db", "migrate", "--database-url", "sqlite:///shop.db"]) == 0
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.execute("DROP INDEX mainspring_jobs_sweep")
    capsys.readouterr()
    assert doctor("doctors_shop:app") == 1
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[2] == "error    schema     index mainspring_jobs_sweep is missing"
    assert lines[3].strip() == "→ Apply the printed statements (`mainspring doctor --sql`)"
    kinds = [line.split()[0] for line in lines if re.match(r"(error|warning|note|ok) ", line)]
    assert kinds == ["error", "warning", "warning", "note", "ok", "ok", "ok", "ok"]
    assert max(map(len, lines[: lines.index("")])) <= 80
    assert "hunter2" not in out
    assert "1 error, 2 warnings, 1 note; " in out
    assert "    CREATE INDEX IF NOT EXISTS mainspring_jobs_sweep ON mainspring_jobs (name) WHERE sweep = 1;" in lines


@pytest.mark.req("DEV-2")
def test_the_printed_statements_alone_repair_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["db", "migrate", "--database-url", "sqlite:///shop.db"])
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.execute("DROP INDEX mainspring_jobs_sweep")
    capsys.readouterr()
    assert doctor("--database-url", "sqlite:///shop.db", "--sql") == 0
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.executescript(capsys.readouterr().out)
    assert doctor("--database-url", "sqlite:///shop.db", "--sql") == 0
    assert capsys.readouterr().out == ""
    assert doctor("--database-url", "sqlite:///shop.db") == 0
    assert "note" in capsys.readouterr().out  # the path is relative: no reason to fail


@pytest.mark.req("DEV-2")
def test_a_database_that_is_away_does_not_stop_the_other_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("doctors_shop:app", "-o", "json") == 1
    data = json.loads(capsys.readouterr().out)
    found = [each["check"] for each in data["findings"]]
    assert found[0] == "database_absent"
    assert {"lease_short", "secret_in_params"} <= set(found)
    assert all(each["remedy"] for each in data["findings"])
    [skipped] = data["skipped"]
    assert skipped["reason"] == "the database cannot be used"
    assert "schema_damaged" in skipped["checks"]
    assert doctor("--database-url", "sqlite:///shop.db", "--sql") == 1
    assert "the schema cannot be compared: the database cannot be used" in capsys.readouterr().err


@pytest.mark.req("DEV-2")
def test_an_application_that_does_not_exist_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("nowhere.jobs:app") == 2
    assert "MODULE:APP" in capsys.readouterr().err
