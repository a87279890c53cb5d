"""A shell in which the commands of a page are typed, with a `mainspring` on its PATH that starts at once.

`python -m mainspring` takes half a second of processor time before it does anything, and the pages have hundreds of
commands. The `mainspring` of this shell passes its arguments, folder, environment and open files to a server that has
loaded everything already and forks a process for each command, and ends with the exit code of that process.

    python -m tests.docs.shell SOCKET        the server
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers import _end_with_parent
from tests.support import until_blocking

PATIENCE = 120.0
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
channel = socket.socket(socket.AF_UNIX)
channel.connect({address!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(channel, [len(request).to_bytes(4, "big")], [0, 1, 2])
channel.sendall(request)
answers = channel.makefile()
child = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(child, number))
if "MAINSPRING_TEST_PID_FILE" in os.environ:
    with open(os.environ["MAINSPRING_TEST_PID_FILE"], "w") as file:
        file.write(str(child))
sys.exit(int(answers.readline() or 255))
"""


class Result(NamedTuple):
    code: int
    output: str
    """What it printed and reported, in the order of a terminal."""


class Server:
    """Runs the commands of all shells of this test process."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        address = str(folder / "socket")
        client = self.programs / "mainspring"
        client.write_text(CLIENT.format(python=sys.executable, address=address))
        client.chmod(0o755)
        environ = clean_environ() | {"PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "tests.docs.shell", address]
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            root = Path(__file__).resolve().parents[2]
            self._process = subprocess.Popen(
                command,
                cwd=root,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
            )
        until_blocking(lambda: os.path.exists(address) or self._process.poll() is not None, deadline=PATIENCE)
        assert self._process.poll() is None, self._log.read_text()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


class Shell:
    """One bash: what a command sets, exports or changes into holds for those after it."""

    def __init__(self, server: Server, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self._files = folder.parent / f"{folder.name}-output"
        self._files.mkdir()
        self._count = 0
        self._code = 0
        path = f"{server.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.pid_file = self._files / "pid"
        environ = clean_environ() | environ | {"PATH": path, "MAINSPRING_TEST_PID_FILE": str(self.pid_file)}
        read, write = os.pipe()
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-s", str(write)],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            pass_fds=[write],
            start_new_session=True,
        )
        os.close(write)
        self._codes = os.fdopen(read)

    def run(self, command: str) -> Result:
        """Type a command and wait for its end."""
        output = self._next_file()
        output.touch()
        self._type(f"(exit {self._code})\n{{ {command}\n}} >{output} 2>&1 </dev/null\necho $? >&$1\n")
        if not select.select([self._codes], [], [], PATIENCE)[0]:
            self._kill()
            raise AssertionError(f"does not end within {PATIENCE:g} s: {command}\n{output.read_text()}")
        line = self._codes.readline()
        assert line, f"the shell ended: {command}"
        self._code = int(line)
        return Result(self._code, output.read_text())

    def start(self, command: str) -> Running:
        """Type a command that goes on until it is interrupted."""
        output = self._next_file()
        ended = output.with_suffix(".code")
        self.pid_file.unlink(missing_ok=True)
        self._type(f"{{ {{ {command}\n}} >{output} 2>&1 </dev/null; echo $? >{ended}; }} &\n")
        until_blocking(lambda: self.pid_file.exists() and self.pid_file.read_text(), command, PATIENCE)
        return Running(int(self.pid_file.read_text()), command, output, ended)

    def close(self) -> None:
        assert self._bash.stdin is not None
        with suppress(BrokenPipeError):
            self._bash.stdin.close()
        self._codes.close()
        try:
            self._bash.wait(10)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        """The shell, what it runs, and the last command of Mainspring, which is no child of it."""
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(self.pid_file.read_text()), signal.SIGKILL)
        self._bash.wait()

    def _next_file(self) -> Path:
        self._count += 1
        return self._files / f"{self._count}.out"

    def _type(self, text: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(text)
        self._bash.stdin.flush()


class Running:
    def __init__(self, pid: int, command: str, output: Path, ended: Path) -> None:
        self.command = command
        self._pid, self._output, self._ended = pid, output, ended

    def said(self) -> str:
        return self._output.read_text()

    def alive(self, sign: str) -> None:
        """Wait until it has printed the sign of life."""
        until_blocking(lambda: sign in self.said() or self._ended.exists(), self.said() or self.command, PATIENCE)
        assert sign in self.said(), f"{self.command}\n{self.said()}"

    def interrupt(self) -> int:
        """As Ctrl-C does. Returns the exit code."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGINT)
        until_blocking(lambda: self._ended.exists() and self._ended.read_text(), self.said(), PATIENCE)
        return int(self._ended.read_text())


def clean_environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
    return kept | {"NO_COLOR": "1", "TZ": "UTC", "COLUMNS": "160", "PYTHONUNBUFFERED": "1"}


# --- the server -------------------------------------------------------------------------------------------------


def serve(address: str) -> None:
    """Returns in the process of a command, which is then to be run."""
    import mainspring.assistants.server
    import mainspring.cli.commands
    import mainspring.stores.postgres
    import mainspring.stores.sqlite
    from mainspring import Mainspring

    for each in pkgutil.walk_packages(mainspring.cli.commands.__path__, "mainspring.cli.commands."):
        importlib.import_module(each.name)
    Mainspring("memory://").asgi()
    assert threading.active_count() == 1, "a thread would be missing in the forked process"
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    while True:
        channel, _ = listener.accept()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            listener.close()
            _one(channel)
            return
        channel.close()


def _one(channel: socket.socket) -> None:
    """Fork once more: one process runs the command, the other waits for it and reports its exit code."""
    head, files, _, _ = socket.recv_fds(channel, 4, 3)
    body = b""
    while len(body) < int.from_bytes(head, "big"):
        body += channel.recv(1 << 20)
    child = os.fork()
    if child:
        for each in files:
            os.close(each)
        channel.send(f"{child}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(OSError):
            channel.send(f"{code if code >= 0 else 128 - code}\n".encode())
        os._exit(0)
    channel.close()
    _become(*json.loads(body), files)


def _become(arguments: list[str], folder: str, environ: dict[str, str], files: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    for target, given in enumerate(files):
        os.dup2(given, target)
        os.close(given)
    streams: list[Any] = [open(0, closefd=False)]  # noqa: SIM115
    streams += [open(each, "w", buffering=1, encoding="utf-8", closefd=False) for each in (1, 2)]  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.argv = ["mainspring", *arguments]
    sys.path[0] = folder  # as `python -m` does


if __name__ == "__main__":
    serve(sys.argv[1])
    runpy.run_module("mainspring", run_name="__main__", alter_sys=True)
