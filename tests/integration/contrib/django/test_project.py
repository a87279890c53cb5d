"""A Django project on SQLite and on PostgreSQL: its transactions, and its own tests with Django's test runner."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.contrib.django.project_runs import Project
from tests.servers import postgres

TESTS = "manage.py test ledger --pattern check_*.py"


def project_on(database: str, folder: Path, **environment: str) -> Project:
    if database == "sqlite":
        return Project(PROJECT_SQLITE=str(folder / "project.sqlite3"), **environment)
    return Project(PROJECT_POSTGRES=postgres().new_database(), **environment)


@pytest.mark.req("DEV-3", "ENQ-2")
@pytest.mark.parametrize(("database", "store"), [("sqlite", ""), ("postgres", ""), ("postgres", "elsewhere")])
def test_an_enqueue_belongs_to_the_open_transaction(database: str, store: str, tmp_path: Path) -> None:
    """On Django's own connection where the store is in its database, otherwise after the commit."""
    own = {"PROJECT_STORE": f"sqlite:///{tmp_path / 'store.db'}"} if store else {}
    project = project_on(database, tmp_path, **own)
    _, shown = project.run("manage.py migrate --run-syncdb -v0", "transactions.py")
    assert shown.split() == ["deferred" if store else "joined"]


def test_the_tests_of_the_project_pass(tmp_path: Path) -> None:
    [shown] = project_on("postgres", tmp_path).run(TESTS)
    passed(shown)


def test_tests_pass_and_leave_the_database_of_the_project_alone(tmp_path: Path) -> None:
    _, shown = project_on("sqlite", tmp_path).run("manage.py migrate --run-syncdb -v0", TESTS)
    passed(shown)
    with closing(sqlite3.connect(tmp_path / "project.sqlite3")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema")]
    assert ("ledger_entry" in tables, [name for name in tables if name.startswith("mainspring")]) == (True, [])


def passed(shown: str) -> None:
    assert re.search(r"Ran 19 tests in .*\n\nOK", shown), shown
    assert "ResourceWarning" not in shown, shown
