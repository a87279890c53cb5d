"""What throwaway servers have in common: a free port, a process that ends with this one, a stop in good order."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

START_TIMEOUT = 30.0
STOP_TIMEOUT = 15.0


def start(command: list[str], folder: Path, farewell: signal.Signals, **options: Any) -> subprocess.Popen[bytes]:
    """Its words go to the file `log`. However this program ends, the server is sent the farewell."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the demonstration; the server is stopped after it
            preexec_fn=partial(_end_with_parent, farewell),
            **options,
        )


def stop(server: subprocess.Popen[bytes], farewell: signal.Signals) -> None:
    """What does not heed the farewell is killed."""
    server.send_signal(farewell)
    try:
        server.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_with_parent(farewell: signal.Signals) -> None:
    """Linux tells the server."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, farewell)
