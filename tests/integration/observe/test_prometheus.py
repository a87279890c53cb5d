"""A real Prometheus looks at two processes: its totals are the store's, and the exported rules fire."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainspring import AlreadyRunning, Mainspring
from mainspring.core.views.job import job_of
from tests.integration.observe.monitored_app import FOLDER
from tests.prometheus_server import Prometheus
from tests.servers import _end_with_parent, free_port
from tests.support import until

ROOT = Path(__file__).resolve().parents[3]
DEADLINE = 60.0
SETTINGS = {
    "LEASE": "2s",
    "HEARTBEAT": "500ms",
    "RESCUE_INTERVAL": "200ms",
    "POLL_INTERVAL": "1s",
    "STOP_TIMEOUT": "2s",
}


class Deployment:
    """One process that schedules, works and serves the interface, and one that only works."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder}/jobs.db"
        self.environ = {name: text for name, text in os.environ.items() if not name.startswith("MAINSPRING_")}
        self.environ |= {f"MAINSPRING_{name}": text for name, text in SETTINGS.items()}
        self.environ |= {"MAINSPRING_DATABASE_URL": self.url, FOLDER: str(folder)}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._metrics_port = free_port()

    def begin(self, *options: str, **settings: str) -> subprocess.Popen[bytes]:
        environ = self.environ | {f"MAINSPRING_{name.upper()}": text for name, text in settings.items()}
        with (self.folder / f"process-{len(self.processes)}.txt").open("wb") as file:
            command = [
                sys.executable,
                "-m",
                "mainspring",
                "run",
                "tests.integration.observe.monitored_app:app",
                *options,
            ]
            process = subprocess.Popen(
                command, cwd=ROOT, env=environ, stdout=file, stderr=subprocess.STDOUT, preexec_fn=_end_with_parent
            )
        self.processes.append(process)
        return process

    def scheduler(self) -> subprocess.Popen[bytes]:
        return self.begin("--roles", "scheduler,worker,api", "--port", "0", "--queues", "default")

    def worker(self) -> subprocess.Popen[bytes]:
        return self.begin("--roles", "worker", "--queues", "other", metrics_port=str(self._metrics_port))

    async def address(self, process: subprocess.Popen[bytes], pattern: str) -> str:
        output = self.folder / f"process-{self.processes.index(process)}.txt"
        found = await until(lambda: re.search(pattern, output.read_text()), f"{pattern} in {output}", DEADLINE)
        return found[1]

    def export_rules(self) -> Path:
        rules = self.folder / "rules.yml"
        command = [sys.executable, "-m", "mainspring", "alerts", "export", "--slack", "500ms", "--to", str(rules)]
        subprocess.run(command, cwd=ROOT, env=self.environ, check=True, timeout=DEADLINE)
        return rules

    def kill(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def deployment(folder: Path) -> Iterator[Deployment]:
    made = Deployment(folder)
    try:
        yield made
    finally:
        made.kill()


@contextmanager
def started(server: Prometheus) -> Iterator[Prometheus]:
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.mark.req("OBS-4", "OBS-5")
async def test_totals_are_the_stores_and_the_exported_rules_fire(tmp_path: Path) -> None:
    with deployment(tmp_path) as made:
        first, second = made.scheduler(), made.worker()
        targets = [
            await made.address(first, r"listening on http://(127\.0\.0\.1:\d+)"),
            await made.address(second, r"metrics on http://(127\.0\.0\.1:\d+)/metrics"),
        ]
        app = Mainspring(made.url)
        try:
            for _ in range(5):  # what is usual has to be known
                await app.wait(await app.trigger("stuck"), DEADLINE)
            rules = await asyncio.to_thread(made.export_rules)
            with started(Prometheus(tmp_path, targets, rules)) as prometheus:
                await until(lambda: len(prometheus.query("up == 1")) == 2, "both are scraped", DEADLINE)
                await until(lambda: prometheus.query('job_execution_total{job_name="fails"}'), "numbers at 0", DEADLINE)
                await mixed_run(app, made, second)
                await same_totals(app, prometheus)
                wanted = {("JobExecutionFailed", "fails"), ("JobRunningTooLong", "stuck"), ("JobStaleLocks", "killed")}
                await until(lambda: wanted <= prometheus.firing(), f"{wanted} fire", DEADLINE)
                missed = ("JobMissedSchedule", "every-second")
                await until(lambda: missed not in prometheus.firing(), "it ticks", DEADLINE)

                first.send_signal(signal.SIGKILL)  # the only scheduler; the other process is still scraped
                await until(lambda: missed in prometheus.firing(), f"{missed} fires", DEADLINE)
                for process in made.processes:
                    process.kill()
                unseen = "max_over_time((count(up == 1) or vector(0))[8s:1s])"
                await until(lambda: prometheus.query(unseen)[0]["value"][1] == "0", "no process is scraped", DEADLINE)
                firing = 'ALERTS{alertname="JobMissedSchedule",job_name="every-second",alertstate="firing"}'
                always = prometheus.query(f"min_over_time((count({firing}) or vector(0))[8s:1s])")
                assert always[0]["value"][1] == "1", "it goes on firing"
        finally:
            await app.close()


async def mixed_run(app: Mainspring, made: Deployment, second: subprocess.Popen[bytes]) -> None:
    """Successes, failures, retries, skips and a kill; one run stays stuck."""
    folder = made.folder
    await app.trigger("stuck", {"long": True})
    killed = await app.trigger("killed")
    held = await app.trigger("alone")
    await until(lambda: all((folder / f"{name}-began").exists() for name in ("stuck", "killed", "alone")))
    second.send_signal(signal.SIGKILL)
    second.wait()
    made.worker()
    for _ in range(2):
        with pytest.raises(AlreadyRunning):
            await app.trigger("alone")
    runs = [await app.trigger(name) for name in ("quick", "fails", "retries") for _ in range(3)]
    (folder / "alone-goes").touch()
    (folder / "killed-goes").touch()
    for run in (killed, held, *runs):
        await app.wait(run, DEADLINE)


async def same_totals(app: Mainspring, prometheus: Prometheus) -> None:
    """In both processes, label by label; nothing ends meanwhile."""
    await app.pause("every-second")
    names = {job_of(view).id: view.name for view in await app.jobs()}

    async def in_the_store() -> dict[tuple[str, str, str], int]:
        stats = await (await app._runtime.engine()).queries._store.stats()
        return {
            (names[id], *key.split(":")[::-1]): count
            for id, each in stats.items()
            for key, count in each.by_trigger.items()
        }

    async def equal() -> bool:
        stored = await in_the_store()
        scraped: dict[str, dict[tuple[str, str, str], int]] = {}
        for sample in prometheus.query("job_execution_total > 0"):
            labels, count = sample["metric"], int(sample["value"][1])
            key = (labels["job_name"], labels["status"], labels["trigger_type"])
            scraped.setdefault(labels["instance"], {})[key] = count
        return len(scraped) == 2 and all(totals == stored for totals in scraped.values())

    await until(equal, "both processes say what the store says", DEADLINE)
    stored = await in_the_store()
    expected = {
        ("quick", "completed", "manual"): 3,
        ("fails", "failed", "manual"): 3,
        ("retries", "completed", "manual"): 3,
        ("alone", "completed", "manual"): 1,
        ("alone", "skipped", "manual"): 2,
        ("killed", "completed", "manual"): 1,
        ("stuck", "completed", "manual"): 5,
    }
    assert expected.items() <= stored.items()
    retries = 'sum(job_retries_total{job_name="retries"})'
    await until(lambda: prometheus.query(retries)[0]["value"][1] == "3", "each was retried once", DEADLINE)
    await app.resume("every-second")
