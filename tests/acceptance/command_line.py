"""The real command line in processes of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.acceptance.warm_commands import warm_commands

T = TypeVar("T")


def hears_ctrl_c() -> None:
    """In a child: a shell that runs the tests in the background has them, and their children, ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


DEADLINE = 60.0

SHOP = """
import asyncio
from mainspring import Mainspring, every

app = Mainspring("sqlite:///shop.db", poll_interval="1s", stop_timeout="10s")
number = 42


@app.job("greet")
async def greet(ctx, name: str, times: int = 1) -> str:
    ctx.logger.info("hello %s", name)
    ctx.count(greeted=times)
    return name * times


@app.job("report", cron="0 30 3 * * *", tz="Europe/Istanbul", window="yesterday")
async def report(ctx) -> str:
    return ctx.window.begin.isoformat()


@app.job("broken", max_attempts=1)
async def broken(ctx) -> None:
    raise ValueError("no such order")


@app.job("slow", overlap="skip")
async def slow(ctx) -> None:
    ctx.progress(1, 2, "half way")
    await asyncio.sleep(600)
"""


class CommandLine:
    """Runs `mainspring` in a folder that holds the application `shop:app`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SHOP)
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
        self.environ |= {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return warm_commands().run(arguments, self.folder, self.environ | environ, DEADLINE)

    def json(self, *arguments: str, code: int = 0) -> Any:
        done = self(*arguments, "-o", "json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def text(self, *arguments: str, code: int = 0) -> str:
        done = self(*arguments)
        assert done.returncode == code, done.stderr
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A long-running command; its log lines go to a file named after its place in the row."""
        with self.log(len(self._started)).open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "mainspring", *arguments],
                cwd=self.folder,
                env=self.environ,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        self._started.append(process)
        return process

    def piped(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that is spoken with while it runs."""
        process = subprocess.Popen(
            [sys.executable, "-m", "mainspring", *arguments],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            preexec_fn=hears_ctrl_c,
        )
        self._started.append(process)
        return process

    def log(self, number: int = 0) -> Path:
        return self.folder / f"log-{number}.txt"

    def serve(self, *options: str) -> subprocess.Popen[str]:
        """`mainspring run shop:app`, once it takes part."""
        number = len(self._started)
        process = self.start("run", "shop:app", *options)
        self.until(lambda: "running" in self.log(number).read_text(), process, number)
        return process

    def until(self, condition: Callable[[], T], process: subprocess.Popen[str] | None = None, number: int = 0) -> T:
        """The first true value of the condition, polled; fails with the log after the deadline."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            if value := condition():
                return value
            if process is not None and process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"never became true; the log says: {self.log(number).read_text()}")

    def status(self, execution_id: str) -> str:
        return str(self.json("executions", "show", execution_id, "--app", "shop:app")["status"])

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._started:
            try:
                process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
