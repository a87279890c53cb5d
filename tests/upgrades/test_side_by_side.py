"""The release before runs, restarts and takes over again beside this one, on one database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mainspring import Mainspring, State
from mainspring.version import VERSION
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import until, until_blocking
from tests.upgrades import release_before
from tests.upgrades.mixed_node import KINDS, RUNS, build, items

PATIENCE = 120.0
BATCH = 3
TICKS = 2  # more than these are there in the end


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy for all processes of a test run: compiling it takes seconds."""
    folder = tmp_path_factory.getbasetemp()
    return release_before.source(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    return postgres().new_database() if request.param == "postgres" else mongo("replica_set").new_database()


class Nodes:
    """Processes of both releases on one database."""

    def __init__(self, url: str, folder: Path, before: Path) -> None:
        self._url, self._folder = url, folder
        self._code = {release_before.VERSION: before, VERSION: release_before.ROOT / "src"}

    @contextmanager
    def node(self, version: str, first: int = 0, count: int = 0) -> Iterator[subprocess.Popen[bytes]]:
        """A node of that release, which enqueues so many items of each kind first; ended by SIGTERM."""
        path = os.pathsep.join([str(self._code[version]), str(release_before.ROOT)])
        command = [sys.executable, "-m", "tests.upgrades.mixed_node", self._url, self._folder, str(first), str(count)]
        log = self._folder / f"node-{first}-{version}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, env=os.environ | {"PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=output, stderr=output
            )
        try:
            until_blocking(lambda: self._is_ready(process, log, version), f"a node of {version} starts", PATIENCE)
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
        troubles = [line for line in log.read_text().splitlines() if " ERROR " in line or "Traceback" in line]
        assert troubles == [], f"{version}: {troubles[:3]}"

    def _is_ready(self, process: subprocess.Popen[bytes], log: Path, version: str) -> bool:
        said = log.read_text()
        assert process.poll() is None, said
        return f"ready {version}" in said

    def wait_until_it_works(self, process: subprocess.Popen[bytes]) -> None:
        """Ticks keep coming, so each process gets something to do."""
        ledger, mark = self._folder / "ledger", f" {process.pid}\n"
        until_blocking(lambda: ledger.exists() and mark in ledger.read_text(), "it works", PATIENCE)

    def ran(self) -> list[tuple[str, int, str, int]]:
        """Kind, item, release and process of each run that ended well, apart from ticks."""
        lines = [line.split() for line in self._lines()]
        return [(kind, int(item), version, int(pid)) for kind, item, version, pid in lines if kind in KINDS]

    def wait_for_ticks(self) -> None:
        until_blocking(lambda: sum(line.startswith("tick ") for line in self._lines()) > TICKS, "ticks", PATIENCE)

    def _lines(self) -> list[str]:
        ledger = self._folder / "ledger"
        return ledger.read_text().splitlines() if ledger.exists() else []

    def wait_for(self, count: int) -> None:
        """Until that many items of each kind are done."""
        wanted = count * sum(RUNS.values())
        until_blocking(lambda: len(self.ran()) >= wanted, f"{wanted} runs, of {self.counts}", PATIENCE)

    @property
    def counts(self) -> Counter[str]:
        return Counter(kind for kind, *_ in self.ran())


@pytest.mark.req("UPG-1")
async def test_both_releases_share_the_work(url: str, tmp_path: Path, before: Path) -> None:
    nodes = Nodes(url, tmp_path, before)
    old, new = release_before.VERSION, VERSION
    with ExitStack() as beside:
        with nodes.node(old, 0, BATCH) as first_old:
            newer = beside.enter_context(nodes.node(new, BATCH, BATCH))
            nodes.wait_until_it_works(first_old)
            nodes.wait_until_it_works(newer)
        with nodes.node(old, 2 * BATCH, BATCH) as second_old:  # restarted, after the new one has migrated
            nodes.wait_for(3 * BATCH)
            nodes.wait_until_it_works(second_old)
            beside.close()  # the new one is rolled back
            app = build(url, tmp_path)
            await app.enqueue_many(items(3 * BATCH, BATCH))  # what it left behind
            nodes.wait_for(4 * BATCH)
    with nodes.node(new, 4 * BATCH, 1):  # and forward again
        nodes.wait_for(4 * BATCH + 1)
        nodes.wait_for_ticks()
    await app.close()
    await _check(build(url, tmp_path), nodes, 4 * BATCH + 1)


async def _check(app: Mainspring, nodes: Nodes, count: int) -> None:
    """Each item ran once, ended once and is counted once; no tick is there twice."""
    runs = Counter((kind, item) for kind, item, *_ in nodes.ran())
    assert runs == {(kind, item): RUNS[kind] for kind in KINDS for item in range(count)}
    await until(lambda: _settled(app, count), "all of it is counted", PATIENCE)
    for kind in KINDS:
        found = await app.executions(kind, limit=1000)
        assert Counter(each.state for each in found) == {State.COMPLETED: count * (RUNS[kind] + (kind == "each"))}
    assert all(len(each.attempts) == 2 for each in await app.executions("flaky", limit=1000))
    ticks = [each.scheduled_at for each in await app.executions("tick", limit=1000)]
    assert len(set(ticks)) == len(ticks) > TICKS
    assert [worker.version for worker in await app.workers()] == []
    await app.close()


async def _settled(app: Mainspring, count: int) -> bool:
    jobs = {job.name: job for job in await app.jobs()}
    await (await app._runtime.engine()).store.fold(1000)
    return all(jobs[kind].stats.total == count * (RUNS[kind] + (kind == "each")) for kind in KINDS)
