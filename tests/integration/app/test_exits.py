"""`app.sync` at the end of its process: whatever ends it in good order, running work is finished or handed back."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainspring import Execution, Mainspring
from mainspring.app.hosts import threads_enabled
from tests.support import DEADLINE, NEVER

SCRIPT = """
import asyncio, os, signal, sys, threading, time
from mainspring import Mainspring

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background processes ignore it

app = Mainspring("sqlite:///jobs.db", stop_timeout=STOP)
running = threading.Event()

@app.job("long")
async def long():
    running.set()
    await WORK

app.sync.enqueue(long)
app.sync.start()
running.wait()
print("running", flush=True)
END
"""
SLEEP = "asyncio.sleep(600)"


@contextmanager
def script(folder: Path, end: str, *, stop: float = 1, work: str = SLEEP) -> Iterator[subprocess.Popen[str]]:
    """The script as a process, which is killed if the test fails before it has ended."""
    source = SCRIPT.replace("STOP", str(stop)).replace("WORK", work).replace("END", end)
    program = [sys.executable, "-c", source]
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.wait(DEADLINE)
        finally:
            process.kill()


def printed(process: subprocess.Popen[str], line: str) -> None:
    """Wait until the script has printed this line."""
    assert process.stdout is not None
    seen = next((each for each in process.stdout if each == f"{line}\n"), None)
    assert seen is not None, process.communicate()[1]


def execution(folder: Path) -> Execution:
    """The only one, which no worker holds any longer."""
    app = Mainspring(f"sqlite:///{folder}/jobs.db")
    [found] = app.sync.executions()
    assert app.sync.workers() == []
    app.sync.close()
    return found


@pytest.mark.req("WRK-5", "DEV-3")
@pytest.mark.parametrize(
    ("end", "signals", "code", "shown"),
    [
        ("", (), 0, ""),
        ("sys.exit(3)", (), 3, ""),
        ("raise ValueError('a bug')", (), 1, "ValueError: a bug"),
        ("signal.pause()", (signal.SIGTERM,), 128 + signal.SIGTERM, ""),
        ("signal.pause()", (signal.SIGINT,), -signal.SIGINT, "KeyboardInterrupt"),
    ],
    ids=["end", "exit", "exception", "SIGTERM", "SIGINT"],
)
def test_however_a_script_ends_its_work_is_handed_back(
    tmp_path: Path, end: str, signals: tuple[signal.Signals, ...], code: int, shown: str
) -> None:
    with script(tmp_path, end) as process:
        printed(process, "running")
        for number in signals:
            process.send_signal(number)
        _, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, errors.count("Traceback")) == (code, 1 if shown else 0), errors
    assert shown in errors
    found = execution(tmp_path)
    assert (found.state, found.failures, [each.end for each in found.attempts]) == ("pending", 0, ["handed_back"])


@pytest.mark.req("WRK-5")
def test_a_handler_may_use_executors_until_the_end(tmp_path: Path) -> None:
    """The executors of Python are shut down at exit, but only after the drain."""
    work = "asyncio.sleep(0.2); await asyncio.to_thread(int)"
    with script(tmp_path, "", stop=DEADLINE, work=work) as process:
        assert process.communicate(timeout=DEADLINE) == ("running\n", "")
    assert execution(tmp_path).state == "completed"


@pytest.mark.req("WRK-5")
def test_a_thread_that_does_not_end_cannot_hold_up_the_process(tmp_path: Path) -> None:
    with script(tmp_path, "", work="asyncio.to_thread(time.sleep, 600)") as process:
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert errors == "mainspring: not stopped after 1 s (a handler blocks the event loop?); exiting now\n"
    assert execution(tmp_path).state == "pending"


OWN_HANDLER = """
app.sync.stop()
called = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: (print("theirs", flush=True), called.set()))
app.sync.start()
print("ready", flush=True)
called.wait()
until = time.monotonic() + 60
while app.sync.workers() and time.monotonic() < until: time.sleep(0.01)
print("drained", flush=True)
sys.exit(5)
"""


@pytest.mark.req("WRK-5")
def test_the_handler_of_a_server_is_called_when_the_drain_has_begun(tmp_path: Path) -> None:
    with script(tmp_path, OWN_HANDLER) as process:
        printed(process, "ready")
        process.terminate()
        assert process.communicate(timeout=DEADLINE) == ("theirs\ndrained\n", "")
    assert process.returncode == 5
    assert execution(tmp_path).failures == 0


@pytest.mark.req("WRK-5")
def test_roles_on_an_event_loop_that_is_gone_hold_up_nothing(tmp_path: Path) -> None:
    """Whoever started them has not stopped them, and nobody else can."""
    elsewhere = "app.sync.stop(); asyncio.run(app.start()); print(len(app.sync.workers()))"
    with script(tmp_path, elsewhere, stop=NEVER, work="asyncio.sleep(0)") as process:
        assert process.communicate(timeout=DEADLINE) == ("running\n1\n", "")
    assert process.returncode == 0


@pytest.mark.req("WRK-5")
def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    watched = (
        "app.observe(lambda event: print(type(event).__name__, flush=True)); print('ready', flush=True); signal.pause()"
    )
    with script(tmp_path, watched, stop=NEVER) as process:
        printed(process, "ready")
        process.terminate()
        printed(process, "Stopping")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert errors == "mainspring: stopped at once; what was running is taken over when its lease ends\n"


LATE = """
import atexit, threading
from mainspring import Mainspring

app = Mainspring("sqlite:///jobs.db", roles="scheduler")

@app.job("greet")
def greet(): ...

def enqueue():
    print(app.sync.enqueue(greet) is not None, flush=True)

def enqueue_after_main():
    threading.main_thread().join()
    enqueue()

atexit.register(enqueue)  # before ours, so it is called after ours
START
"""


@pytest.mark.req("WRK-5", "DEV-3")
@pytest.mark.parametrize(
    ("start", "enqueued"),
    [
        ("app.sync.start()", 1),
        ("enqueue(); threading.Thread(target=enqueue_after_main).start()", 3),
        ("threading.Thread(target=enqueue_after_main).start()", 2),
    ],
    ids=["after the drain", "by a thread", "first used by a thread"],
)
def test_exit_hooks_and_threads_can_enqueue_to_the_end(tmp_path: Path, start: str, enqueued: int) -> None:
    program = [sys.executable, "-c", LATE.replace("START", start)]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE)
    assert (done.stdout, done.stderr) == ("True\n" * enqueued, "")
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")
    assert len(app.sync.executions()) == enqueued
    app.sync.close()


@pytest.mark.req("WRK-5")
def test_sigterm_is_left_to_itself_where_nothing_is_to_be_drained(tmp_path: Path) -> None:
    """After a stop, and in a forked child, the process ends by the signal, as if it had never been handled."""
    forked = "app.sync.stop(); os.fork() or signal.raise_signal(signal.SIGTERM); print(os.wait()[1], flush=True)"
    with script(tmp_path, f"{forked}; signal.pause()") as process:
        printed(process, str(int(signal.SIGTERM)))
        process.terminate()
    assert process.returncode == -signal.SIGTERM


@pytest.mark.req("DEV-3")
@pytest.mark.parametrize(
    ("version", "options", "enabled"),
    [
        (b"2.0.30", {}, True),
        (b"2.0.21", {}, False),
        (b"2.0.21", {"enable-threads": True}, True),
        ("2.0.9-debian", {"threads": b"2"}, True),
        (b"2.1-dev", {}, True),
    ],
)
def test_old_releases_of_uwsgi_run_threads_only_when_told_to(
    version: bytes | str, options: dict[str, object], enabled: bool
) -> None:
    assert threads_enabled(version, options) is enabled
