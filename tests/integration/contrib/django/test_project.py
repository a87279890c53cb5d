"""A Django project on SQLite and on PostgreSQL: its transactions, and its own tests with Django's test runner."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.contrib.django.project_runs import Project
from tests.servers import postgres


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
    project.run("manage.py", "migrate", "--run-syncdb", "-v0")
    assert project.run("transactions.py").split() == ["deferred" if store else "joined"]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_tests_of_the_project_pass(database: str, tmp_path: Path) -> None:
    shown = project_on(database, tmp_path).run("manage.py", "test", "ledger", "--pattern", "check_*.py")
    assert re.search(r"Ran 19 tests in .*\n\nOK", shown), shown
    assert "ResourceWarning" not in shown, shown


def test_tests_leave_the_database_of_the_project_alone(tmp_path: Path) -> None:
    project = project_on("sqlite", tmp_path)
    project.run("manage.py", "migrate", "--run-syncdb", "-v0")
    project.run("manage.py", "test", "ledger.checks.check_kit", "--pattern", "check_*.py")
    with closing(sqlite3.connect(tmp_path / "project.sqlite3")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema")]
    assert ("ledger_entry" in tables, [name for name in tables if name.startswith("mainspring")]) == (True, [])
