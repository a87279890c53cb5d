"""Contestants as processes: one call of their command line, or a crew of workers that starts and ends together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import usage
from benchmarks.environments import PEERS, ROOT, peer_python
from benchmarks.tally import Tally

PATIENCE = 60.0
LONGEST = 300.0  # seconds that one action may take
STALLED = 30.0  # seconds without a single job: whoever stands still for so long is not going to end


class Failed(Exception):
    """A measurement that must not count: the contestant broke, stood still, or did other work than asked."""


@dataclass(frozen=True)
class Contestant:
    """Who is measured. `variant` chooses the jobs and the settings; `peer` the environment, None for our own."""

    name: str
    store: str
    peer: str | None = None
    module: str = "mainspring"
    variant: str = "plain"
    work: str = "work"
    ping: str = "ping"
    from_start: bool = False  # the clock starts with the worker, because it runs no job before it has read all of them

    def command(self, action: str, **options: Any) -> list[str]:
        if self.peer is None:
            start = [sys.executable, "-m", f"benchmarks.contestants.{self.module}"]
        else:
            start = [str(peer_python(self.peer)), str(PEERS / self.peer / "bench.py")]
        return [*start, action, *(f"--{name}={value}" for name, value in options.items())]

    def ask(self, action: str, **options: Any) -> dict[str, Any]:
        """Runs one action to its end; its answer."""
        command = self.command(action, **options)
        try:
            ended = subprocess.run(
                command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name}: {action} did not end within {LONGEST:.0f} s") from None
        if ended.returncode != 0:
            raise Failed(f"{self.name}: {action} ended with {ended.returncode}: {ended.stderr.strip()[-1500:]}")
        return json.loads(ended.stdout.strip().splitlines()[-1])


def environment() -> dict[str, str]:
    """Of our own variables none reaches a contestant: what is measured is the default configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}


def exit_when_terminated() -> None:
    """A harness that is told to end stops its workers and servers first, as after Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class Crew:
    """So many worker processes of one contestant, on one place. They import, wait, and start at the same moment."""

    def __init__(self, contestant: Contestant, url: str, processes: int, folder: Path, items: int = 0) -> None:
        self.contestant = contestant
        self._path = folder / "tally"
        self.tally = Tally.create(self._path)
        self._log = folder / "log"
        options = {"url": url, "tally": self._path, "variant": contestant.variant, "items": items}
        command = contestant.command(contestant.work, **options)
        with self._log.open("ab") as log:
            self._processes = [
                subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=log, stderr=log) for _ in range(processes)
            ]

    @property
    def tally_path(self) -> Path:
        return self._path

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.tally.ready < len(self._processes):
            self._check()
            if time.monotonic() > deadline:
                raise Failed(f"{self.contestant.name}: not ready after {PATIENCE:.0f} s: {self._said()}")
            time.sleep(0.01)

    def go(self) -> None:
        self.tally.go()

    def wait_for(self, items: int) -> None:
        """Until so many jobs have started. Looks fifty times a second: that costs nothing beside the work."""
        seen, since = 0, time.monotonic()
        while (count := self.tally.count) < items:
            self._check()
            if count > seen:
                seen, since = count, time.monotonic()
            elif time.monotonic() - since > STALLED:
                raise Failed(f"{self.contestant.name}: stands still at {count} of {items}: {self._said()}")
            time.sleep(0.02)

    def cpu(self) -> float | None:
        return usage.cpu_seconds(self.pids)

    def memory(self) -> float | None:
        return usage.memory_mb(self.pids)

    def stop(self) -> None:
        """Asked to stop as an operator would; who does not heed it is killed."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 15.0
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.tally.close()

    def _check(self) -> None:
        if ended := [process.returncode for process in self._processes if process.poll() is not None]:
            raise Failed(f"{self.contestant.name}: a worker ended with {ended[0]}: {self._said()}")

    def _said(self) -> str:
        return self._log.read_text(errors="replace").strip()[-1500:] or "it said nothing"
