"""examples/flask_shop.py in real servers: stopped in the middle of a job, they finish it or hand it back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mainspring import Execution, Mainspring
from tests.servers import free_port, postgres
from tests.support import DEADLINE, until_blocking

ROOT = Path(__file__).parent.parent.parent.parent
FACTORY = "examples.flask_shop:create_app(work_inside=True)"
STOP_TIMEOUT = 2
CONF = """
def post_worker_init(worker):
    from examples.flask_shop import jobs
    jobs.sync.start()
"""
UWSGI = "from examples.flask_shop import create_app\napplication = create_app(work_inside=True)\n"
GUNICORN = ("gunicorn", "--no-control-socket", "-w", "2")
USUAL_UWSGI = ("pyuwsgi", "--master", "--die-on-term", "--need-app", "--wsgi-file", "shop_site.py")


class Server:
    """A server process, its application's address, and a client on the same database."""

    def __init__(self, folder: Path, database: str, command: tuple[str, ...], port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.client = Mainspring(database)
        self._log = folder / "server.log"
        start = [sys.executable, "-m", *command] if command[0] == "flask" else [program(command[0]), *command[1:]]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                start,
                cwd=folder,
                env=os.environ | environment(database),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its children, such as Flask's reloader's, end with it
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def workers(self) -> int:
        assert self.process.poll() is None, self.log
        return len(self.client.sync.workers())

    def order(self, pages: int) -> Execution:
        """The execution of an order of so many pages, 50 ms each, once it runs."""
        request = urllib.request.Request(f"{self.address}/orders/1?pages={pages}", method="POST")

        def posted() -> str | None:
            try:
                with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
                    return str(json.load(answer)["execution"])
            except ConnectionError:
                return None
            except urllib.error.URLError:
                assert self.process.poll() is None, self.log
                return None

        id = until_blocking(posted, "the server answers")
        return until_blocking(lambda: running(self.client.sync.get(id)), "the job runs")

    def stopped(self) -> str:
        """Ends it by SIGTERM. Returns its log."""
        self.process.terminate()
        self.process.wait(DEADLINE)
        assert "Traceback" not in self.log, self.log
        assert self.client.sync.workers() == [], self.log
        return self.log


def running(execution: Execution) -> Execution | None:
    return execution if execution.state == "running" else None


def program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def environment(database: str) -> dict[str, str]:
    return {
        "MAINSPRING_DATABASE_URL": database,
        "MAINSPRING_STOP_TIMEOUT": str(STOP_TIMEOUT),
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def serving(folder: Path, *command: str, database: str | None = None) -> Iterator[Server]:
    port = free_port()
    server = Server(
        folder, database or f"sqlite:///{folder}/jobs.db", (*(part.format(port) for part in command),), port
    )
    try:
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
        server.client.sync.close()


def handed_back(execution: Execution) -> bool:
    ends = [each.end for each in execution.attempts]
    return (execution.state, execution.failures, execution.crashes, ends) == ("pending", 0, 0, ["handed_back"])


@pytest.mark.req("DEV-3", "WRK-5")
@pytest.mark.parametrize(
    ("command", "workers"),
    [
        ((*GUNICORN, "-b", "127.0.0.1:{}", FACTORY), 2),
        ((*GUNICORN, "-b", "127.0.0.1:{}", "-k", "gthread", "--preload", FACTORY), 1),
        ((*GUNICORN, "-b", "127.0.0.1:{}", "--preload", "-c", "conf.py", "examples.flask_shop:create_app()"), 2),
        ((*USUAL_UWSGI, "--http-socket", "127.0.0.1:{}"), 1),
        (("flask", "--app", FACTORY, "run", "--port", "{}"), 1),
    ],
    ids=["gunicorn", "gunicorn-preload-gthread", "gunicorn-preload-hook", "uwsgi", "flask-run"],
)
def test_a_server_that_is_stopped_hands_back_its_work(tmp_path: Path, command: tuple[str, ...], workers: int) -> None:
    """With --preload the master runs the jobs, unless a hook starts them in each worker."""
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "shop_site.py").write_text(UWSGI)
    with serving(tmp_path, *command) as server:
        until_blocking(lambda: server.workers() == workers, "all workers have started")
        execution = server.order(pages=10_000)
        server.stopped()
        assert handed_back(server.client.sync.get(execution.id)), server.log


@pytest.mark.req("DEV-3", "WRK-5")
def test_what_can_be_finished_is_finished_on_postgresql(tmp_path: Path) -> None:
    database = postgres().migrated_database()
    command = (*GUNICORN, "-k", "gthread", "-b", "127.0.0.1:{}", FACTORY)
    with serving(tmp_path, *command, database=database) as server:
        execution = server.order(pages=10)
        server.stopped()
        ended = server.client.sync.get(execution.id)
        assert (ended.state, ended.result, len(ended.attempts)) == ("completed", "invoice-1.pdf", 1)


@pytest.mark.req("DEV-3", "ENQ-1")
def test_a_server_that_only_enqueues_starts_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, *GUNICORN, "--preload", "-b", "127.0.0.1:{}", "examples.flask_shop:create_app()") as server:
        with serving_worker(tmp_path, server.client) as worker:
            execution = server.order(pages=5)
            assert server.client.sync.wait(execution, timeout=DEADLINE).result == "invoice-1.pdf"
            assert server.workers() == 1
            worker.terminate()
            worker.wait(DEADLINE)
        server.stopped()


@contextmanager
def serving_worker(folder: Path, client: Mainspring) -> Iterator[subprocess.Popen[bytes]]:
    """The second process of that shape."""
    database = client.settings.database_url
    command = [sys.executable, "-m", "mainspring", "worker", "examples.flask_shop:jobs"]
    with subprocess.Popen(command, cwd=folder, env=os.environ | environment(database)) as worker:
        try:
            yield worker
        finally:
            worker.kill()


RELOADED = """
from examples.flask_shop import create_app, jobs
site = create_app(work_inside=True)
"""


@pytest.mark.req("DEV-3", "WRK-5")
def test_the_reloader_of_flask(tmp_path: Path) -> None:
    """Jobs run in the process that is restarted, not in the one that watches."""
    (tmp_path / "reloaded.py").write_text(RELOADED)
    (tmp_path / "watchdog.py").touch()  # hides the package: Flask would watch the whole checkout with it
    with serving(tmp_path, "flask", "--app", "reloaded:site", "run", "--debug", "--port", "{}") as server:
        until_blocking(lambda: server.workers() == 1, "the child runs")
        first = server.client.sync.workers()[0].pid
        execution = server.order(pages=10_000)
        (tmp_path / "reloaded.py").write_text(f"{RELOADED}# changed\n")
        wait_for(lambda: [each.pid for each in server.client.sync.workers()] not in ([], [first]))
        ends = [each.end for each in server.client.sync.get(execution.id).attempts]
        assert ends[0] == "handed_back"
        assert first != server.process.pid


def wait_for(condition: Callable[[], bool]) -> None:
    until_blocking(condition, "the code was reloaded")
