"""`mainspring top`: frames at several sizes, the keys, one snapshot for programs, and the live view on a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import deque
from pathlib import Path

import msgspec
import pytest

from mainspring import Mainspring, every
from mainspring.cli.commands.operations.top import LiveView, read
from mainspring.cli.root import run_command
from mainspring.cli.screens import top
from mainspring.cli.screens.top import VIEWS, Choices, Reading, frame
from mainspring.core.monitoring.activity import ActivityTotals
from mainspring.core.rules.activity import LATENESS
from mainspring.core.views.records import LogEntry
from mainspring.model.store.messages import ClaimRequest

DEADLINE = 60.0


async def fill(url: str) -> None:
    """A paused queue, an execution that runs, another that waits, a job that comes next; no process that runs."""
    app = Mainspring(url, roles=())
    app.job("send", queue="mail")(lambda: None)
    app.job("import", queue="bulk")(lambda: None)
    app.job("tick", trigger=every(hours=1))(lambda: None)
    await app.open()
    await app.queues.pause("mail", note="server down", by="ann")
    for job in ("send", "import"):
        await app.enqueue(job)
    store = (await app._runtime.engine()).store
    claim = ClaimRequest(owner="w1", handlers=frozenset({"import"}), queues=None, limit=1, lease=600.0)
    await store.exchange((), claim)
    await app.close()


def shown(reading: Reading, choices: Choices, width: int, height: int) -> list[str]:
    return [line.plain for line in frame(reading, choices, width, height)]


@pytest.mark.req("OPS-4")
async def test_frames_fit_the_terminal_and_keys_change_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'top.db'}"
    await fill(url)
    app = Mainspring(url, roles=())
    await app.open()
    reading, of_mail = await read(app), await read(app, "mail")
    await app.close()
    assert [each.job for each in reading.running] == ["import"]
    assert of_mail.running == of_mail.coming == []

    for width, height in ((80, 24), (40, 12), (200, 60)):
        lines = shown(reading, Choices(), width, height)
        assert len(lines) == height
        assert max(map(len, lines)) <= width
    text = "\n".join(shown(reading, Choices(), 120, 30))
    places = [text.index(title) for title in ("PROBLEMS", "QUEUES", "RUNNING 1", "NEXT", "q quit")]
    assert places == sorted(places)
    assert "queue mail is paused while work waits" in text
    assert "tick" in text

    for lateness, punctual in (((8, 2), True), ((0,) * len(LATENESS) + (1,), False)):  # the last: later than any bound
        hour = msgspec.structs.replace(reading.hour, totals=ActivityTotals(lateness=lateness))
        lines = shown(msgspec.structs.replace(reading, hour=hour), Choices(), 120, 30)
        assert any("99% of the ticks began within 0.5 s" in line for line in lines) == punctual

    choices = Choices()
    for view in VIEWS[1:]:
        choices.press("tab", reading)
        titles = [line.split()[0] for line in shown(reading, choices, 80, 24) if line[:3].isupper()]
        assert titles == [view.upper()]
    choices.press("tab", reading)
    choices.press("f", reading)
    assert choices.queue == "bulk"
    assert not any(line.startswith("mail ") for line in shown(reading, choices, 80, 24))
    choices.press("s", reading)
    assert "QUEUES 1 by ready" in "\n".join(shown(reading, choices, 80, 24))
    choices.press("enter", reading)
    assert choices.opened is None, "nothing is selected yet"
    choices.press("down", reading)
    choices.press("enter", reading)
    opened = "\n".join(shown(reading, choices, 80, 24))
    assert f"import  {reading.running[0].id}" in opened
    assert "no log lines" in opened
    choices.press("escape", reading)
    choices.press("p", reading)
    assert "PAUSED" in shown(reading, choices, 80, 24)[0]
    choices.press("q", reading)
    assert choices.quit


@pytest.mark.req("OPS-4", "SEC-2")
async def test_no_text_of_strangers_adds_a_line_to_the_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'top.db'}"
    await fill(url)
    hostile = "row\x1b[2J\n12:00:00 forged"
    monkeypatch.setattr(top, "progress_text", lambda *_, **__: hostile)
    async with Mainspring(url, roles=()) as app:
        await app.queues.pause("bulk", note=hostile, by=hostile)
        reading = await read(app)
    choices = Choices(log=deque([LogEntry(reading.at, hostile, hostile, hostile)]))
    for opened in (None, reading.running[0].id):
        choices.opened = opened
        lines = shown(reading, choices, 120, 30)
        assert len(lines) == 30
        assert not [line for line in lines if "\n" in line]
        assert any("forged" in line for line in lines)


@pytest.mark.req("OPS-4")
async def test_a_view_that_can_no_longer_read_does_not_look_calm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Mainspring(f"sqlite:///{tmp_path / 'top.db'}", roles=()) as app:
        view = LiveView(app, Choices(), 0.01)

        async def broken() -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(view, "_read", broken)
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(ZeroDivisionError):
                await view.run()


@pytest.mark.req("OPS-4")
async def test_the_live_view_follows_keys_and_the_size_of_the_terminal(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'top.db'}"
    await fill(url)
    terminal = Terminal(80, 24, "top", "--database-url", url)
    try:
        terminal.expect("q quit")
        terminal.expect("import")
        terminal.type("\t\t")
        terminal.expect("queues only")
        terminal.resize(100, 40)
        terminal.type("p")
        terminal.expect("PAUSED")
        terminal.type("q")
        assert terminal.process.wait(DEADLINE) == 0
        terminal.expect("\x1b[?1049l")  # the screen from before is back
    finally:
        terminal.close()


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, width: int, height: int, *arguments: str) -> None:
        self._side, other = pty.openpty()
        self._output = ""
        self._set_size(width, height)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environ.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mainspring", *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            env=environ | {"TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(other)

    def resize(self, width: int, height: int) -> None:
        """As terminals do it; the process is told by a signal."""
        self._set_size(width, height)
        self.process.send_signal(signal.SIGWINCH)

    def type(self, text: str) -> None:
        os.write(self._side, text.encode())

    def expect(self, text: str) -> None:
        """Read until the text was written since the last call."""
        end = time.monotonic() + DEADLINE
        while text not in self._output:
            assert time.monotonic() < end, self._output
            if select.select([self._side], [], [], 0.5)[0]:
                self._output += self._read()
        self._output = self._output.partition(text)[2]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._side)

    def _read(self) -> str:
        try:
            return os.read(self._side, 65536).decode(errors="replace")
        except OSError:  # the other side is closed
            return ""

    def _set_size(self, width: int, height: int) -> None:
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


@pytest.mark.req("OPS-4")
def test_one_snapshot_for_programs_and_pipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    url = f"sqlite:///{tmp_path / 'top.db'}"
    with Mainspring(url, roles=()).sync as app:
        app.open()

    assert run_command(["top", "--database-url", url]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert [line.split()[0] for line in printed.splitlines() if line[:3].isupper()] == [
        "PROBLEMS",
        "QUEUES",
        "RUNNING",
        "NEXT",
    ]
    assert run_command(["top", "--queue", "mial", "--database-url", url]) == 2
    assert "--queue: 'mial' is not valid" in capsys.readouterr().err
    assert run_command(["top", "-o", "json", "--database-url", url]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"at", "problems", "queues", "workers", "running", "next", "activity"} <= found.keys()
