"""Real processes under test: started as modules, ended by their own id, none left behind.

Each child reads from a pipe that this process holds open: when this process ends, however that happens, the pipe
closes and the child ends itself. The fixture that owns a `Processes` kills the rest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import support

ROOT = Path(__file__).resolve().parents[2]
LOOK = 0.03
PATIENCE = 120.0
"""Seconds after which a test gives up. Never an expectation: a busy machine takes a minute to start ten processes."""


class Process:
    """One child. Its output goes to a file."""

    def __init__(self, module: str, arguments: list[str], output: Path) -> None:
        self.name = f"{module.rpartition('.')[2]} {' '.join(arguments[1:])}".strip()
        self.output = output
        with output.open("wb") as file:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: ended by that signal."""
        return self._popen.poll()

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP, and return once it has really stopped: nothing it does can happen any more."""
        self.send(signal.SIGSTOP)
        if self.alive:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: no handler, no cleanup, no last words. Paused processes too."""
        if self.alive:
            self.send(signal.SIGKILL)
        self._popen.wait()
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    def said(self) -> str:
        return self.output.read_text(errors="replace")


class Processes:
    """All children of one test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Process] = []

    def start(self, module: str, *arguments: object) -> Process:
        output = self._folder / f"output-{len(self._started)}.txt"
        process = Process(f"tests.crash.{module}", [str(self._folder), *map(str, arguments)], output)
        self._started.append(process)
        return process

    def node(self, roles: str = "worker", **settings: object) -> Process:
        """A process with these roles, as `tests.crash.node` sets it up."""
        return self.start("node", roles, *(f"{name}={value}" for name, value in settings.items()))

    def alive(self) -> list[Process]:
        return [process for process in self._started if process.alive]

    def by_pid(self, pid: int) -> Process | None:
        return next((process for process in self._started if process.pid == pid), None)

    def kill_all(self) -> None:
        for process in self.alive():
            process.send(signal.SIGKILL)
        for process in self._started:
            process.kill()

    def said(self, at_most: int) -> str:
        """The last characters of what each of them said."""
        each_said = ((each, each.said()[-at_most:]) for each in self._started)
        return "".join(f"--- {each.name} ({each.exit_code})\n{said}\n" for each, said in each_said if said)


async def until(condition: Callable[[], Any], timeout: float, waiting_for: str = "", every: float = LOOK) -> Any:
    """What the condition, plain or async, returns once that is true. Most conditions ask a database, which is busy."""
    return await support.until(condition, waiting_for, timeout, every)


def end_with_parent() -> None:
    """For children: end as soon as the process that started this one is gone."""

    def watch() -> None:
        os.read(0, 1)
        os._exit(3)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
