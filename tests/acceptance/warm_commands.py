"""The command line in a process of its own for each command, without importing it again for each.

`python -m mainspring` takes half a second of processor time before it does anything. A server that has imported it,
and has no threads, forks a process per command: with its own folder, environment, output and exit code, as the shell
would start it. What differs is only that the modules are loaded already.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

LARGEST = 1 << 20


class WarmCommands:
    """The tests' side."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, str(Path(__file__)), str(theirs.fileno())]
        environ = os.environ | {"PYTHONUNBUFFERED": "1"}
        self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environ)
        theirs.close()
        atexit.register(self.close)

    def run(
        self, arguments: tuple[str, ...], folder: Path, environ: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        pipes = [os.pipe(), os.pipe()]
        request = json.dumps({"arguments": arguments, "folder": str(folder), "environ": environ})
        socket.send_fds(self._ours, [request.encode()], [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        found = ["", ""]
        readers = [threading.Thread(target=_read, args=(read, found, at)) for at, (read, _) in enumerate(pipes)]
        for reader in readers:
            reader.start()
        self._ours.settimeout(timeout)
        child = int(self._ours.recv(64))
        try:
            code = int(self._ours.recv(64))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self._ours.settimeout(None)
            self._ours.recv(64)
            raise
        finally:
            for reader in readers:
                reader.join()
        return subprocess.CompletedProcess(["mainspring", *arguments], code, *found)

    def close(self) -> None:
        self._ours.close()
        self._server.wait()


def _read(descriptor: int, found: list[str], at: int) -> None:
    with open(descriptor, encoding="utf-8") as file:
        found[at] = file.read()


@cache
def warm_commands() -> WarmCommands:
    return WarmCommands()


# --- the server -----------------------------------------------------------------------------------------------


def serve(channel: socket.socket) -> None:
    """Returns in the process of a command, which is then to be run."""
    import mainspring.cli.commands
    import mainspring.stores.sqlite

    for each in pkgutil.walk_packages(mainspring.cli.commands.__path__, "mainspring.cli.commands."):
        importlib.import_module(each.name)
    assert threading.active_count() == 1, "a thread would be missing in the forked process"
    gc.freeze()  # no process that ends looks through all that was loaded
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, LARGEST, 2)
        if not message:
            sys.exit()
        child = os.fork()
        if child == 0:
            channel.close()
            _become(json.loads(message), *descriptors)
            return
        for each in descriptors:
            os.close(each)
        channel.send(str(child).encode())
        channel.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(request: dict[str, object], output: int, errors: int) -> None:
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environ"])  # type: ignore[call-overload]
    time.tzset()
    for target, given in ((1, output), (2, errors)):
        os.dup2(given, target)
        os.close(given)
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(each, "w"), "utf-8", write_through=True) for each in (1, 2))
    sys.argv = ["mainspring", *request["arguments"]]  # type: ignore[misc]
    sys.path[0] = os.getcwd()  # as `python -m` does


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("mainspring", run_name="__main__", alter_sys=True)
