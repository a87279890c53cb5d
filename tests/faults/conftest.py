"""A server of the suite's own, a fresh database for each test, processes, and the counters."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.crash.handlers import ledger_of
from tests.crash.processes import Processes
from tests.crash.tables import address_file
from tests.faults.counters import COUNTERS
from tests.servers import Postgres, new_postgres

FAILED = pytest.StashKey[bool]()


@cache
def own_server() -> Postgres:
    """Not the one other suites share: this one is stopped, killed and starved."""
    server = new_postgres(deadlock_timeout="10ms")
    server.start()
    return server


@pytest.fixture
def server() -> Postgres:
    return own_server()


@pytest.fixture
def address(server: Postgres, tmp_path: Path) -> str:
    """A fresh database, written down for the processes of the test."""
    url = server.new_database()
    address_file(tmp_path).write_text(url)
    return url


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
def children(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Processes]:
    """Processes of this test; whatever is left of them is killed at its end."""
    started = Processes(tmp_path)
    try:
        yield started
    finally:
        started.kill_all()
        COUNTERS.read(ledger_of(tmp_path))
        if request.node.stash.get(FAILED, False):
            print(started.said(3000))


@pytest.fixture
def processes(address: str, children: Processes) -> Processes:
    """The same, with a database of the suite's server."""
    return children


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The counters are judged when everything else has run."""
    items.sort(key=lambda item: item.path.stem == "test_counters")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if any(COUNTERS.__dict__.values()):
        terminalreporter.write_line(f"fault suite: {COUNTERS}")
