"""examples/fastapi_shop.py under uvicorn: orders and receipts in one transaction, readable lines, a clean end."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mainspring import Mainspring
from mainspring.observe.logs.setup import lines_shown
from tests.servers import free_port
from tests.support import DEADLINE, until_blocking

ROOT = Path(__file__).parent.parent.parent.parent


@contextmanager
def uvicorn(folder: Path, *options: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes], Path]]:
    log, port = folder / "server.log", free_port()
    command = [sys.executable, "-m", "uvicorn", "examples.fastapi_shop:site", "--port", str(port), *options]
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    with process, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=DEADLINE) as client:
        try:
            yield client, process, log
        finally:
            process.kill()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/openapi.json").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.req("DEV-3", "ENQ-2")
def test_the_shop_with_two_workers(tmp_path: Path) -> None:
    """Both tick and work, which is harmless: every receipt is sent once."""
    with uvicorn(tmp_path, "--workers", "2") as (client, process, log):
        until_blocking(lambda: answers(client), "the server answers")
        orders = [client.post("/orders", params={"item": item}) for item in ("lamp", "unicorn", "chair")]
        assert [each.status_code for each in orders] == [202, 409, 202], log.read_text()
        for order in (orders[0].json(), orders[2].json()):
            until_blocking(lambda id=order: client.get(f"/orders/{id}").json(), "its receipt was sent")
        assert client.get("/jobs/", follow_redirects=True).status_code == 200
        until_blocking(lambda: log.read_text().count("running") >= 2, "both have started")
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE)
    lines = log.read_text()
    assert "Traceback" not in lines
    app = Mainspring(tmp_path / "shop.db")
    executions = app.sync.executions("send-receipt")
    assert [each.state for each in executions] == ["completed", "completed"]
    assert app.sync.workers() == []
    app.sync.close()
    ends = [line for line in lines.splitlines() if "send-receipt" in line and "completed" in line]
    assert len(ends) == 2, f"each line appears, and once:\n{lines}"


@pytest.mark.req("DEV-3")
def test_lines_are_shown_once(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the application sets up the root logger before, after or never."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    logger, theirs = logging.getLogger("mainspring"), logging.StreamHandler(sys.__stderr__)
    monkeypatch.setattr(logger, "handlers", [])
    with lines_shown("console", "INFO"):
        logger.info("ours")
        logger.handlers[0].flush()
        root.addHandler(theirs)
        logger.info("theirs")
    with lines_shown("console", "INFO"):
        logger.warning("theirs, too")
    root.handlers.clear()
    assert logger.handlers == []
    written = capfd.readouterr().err
    assert [written.count(word) for word in ("ours", "theirs")] == [1, 2], written
