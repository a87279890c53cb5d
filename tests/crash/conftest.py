"""Folders, processes and the tally of the crash suite."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.crash.handlers import ledger_of
from tests.crash.processes import Processes
from tests.crash.tables import address_file
from tests.crash.tally import TALLY
from tests.mongo_server import mongo
from tests.servers import postgres

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def database(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Each test that has processes runs on a file of its own, and on a fresh database of a real server."""
    if request.param != "sqlite":
        server = postgres() if request.param == "postgres" else mongo("replica_set")
        address_file(tmp_path).write_text(server.new_database())
    return request.param


@pytest.fixture
def processes(tmp_path: Path, database: str, request: pytest.FixtureRequest) -> Iterator[Processes]:
    """Children of this test; whatever is left of them is killed at its end."""
    started = Processes(tmp_path)
    try:
        yield started
    finally:
        started.kill_all()
        TALLY.read(ledger_of(tmp_path))
        if request.node.stash.get(FAILED, False):
            print(started.said(3000))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tally is judged when everything else has run."""
    items.sort(key=lambda item: item.path.stem == "test_tally")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TALLY.counted:
        terminalreporter.write_line(f"crash suite: {TALLY}")
