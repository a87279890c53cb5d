"""The log of `mainspring run`: whose line it is, and that nobody has to read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring import Mainspring
from tests.support import DEADLINE, until

SHOP = """
import logging
from mainspring import Mainspring

app = Mainspring("sqlite:///shop.db", poll_interval="1s", stop_timeout="10s")
library = logging.getLogger("a.library")


@app.job("async")
async def work(ctx) -> None:
    library.warning("async says %s", "x" * 2_000)


@app.job("plain")
def plain(ctx) -> None:
    library.warning("plain says %s", "x" * 2_000)
"""
BLOCKED = """
import time
from mainspring import Mainspring

app = Mainspring("sqlite:///shop.db", stop_timeout="1s")


@app.job("async")
async def work(ctx) -> None:
    for _ in range(200):
        ctx.logger.warning("x" * 2_000)
    open("blocked", "w").close()
    time.sleep(600)
"""
MANY = 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def run(folder: Path, output: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mainspring", "run", "shop:app", "--log-format", "json"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
    return subprocess.Popen(command, cwd=folder, env=environ, stdout=output, stderr=output, stdin=subprocess.DEVNULL)


async def enqueue(folder: Path) -> Mainspring:
    client = Mainspring(folder / "shop.db")
    for name in ("async", "plain"):
        client.job(name)(lambda: None)
    await client.enqueue_many([("async", None), ("plain", None)] * (MANY // 2))
    return client


async def all_completed(client: Mainspring) -> bool:
    return len(await client.executions(status="completed", limit=500)) == MANY


@pytest.mark.req("OBS-7")
async def test_output_that_nobody_reads_stops_no_job_and_no_stop(folder: Path) -> None:
    """800 kB of lines into a pipe that holds 64."""
    client = await enqueue(folder)
    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "wb"), run(folder, writing) as process:
        try:
            await until(lambda: all_completed(client), deadline=60)
            process.terminate()
            assert process.wait(DEADLINE) == 0
        finally:
            process.kill()
            await client.close()


@pytest.mark.req("OBS-1")
async def test_every_line_below_a_handler_names_its_execution(folder: Path) -> None:
    client = await enqueue(folder)
    with open(folder / "log", "wb") as log, run(folder, log.fileno()) as process:
        try:
            await until(lambda: all_completed(client), deadline=60)
        finally:
            process.terminate()
            process.wait(60)  # its last lines are written by then
    executions = {each.id: each.trace_id for each in await client.executions(limit=500)}
    await client.close()
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    for what in ("async says", "plain says"):
        said = {line["execution_id"]: line["trace_id"] for line in lines if line.get("message", "").startswith(what)}
        assert len(said) == MANY // 2
        assert said.items() <= executions.items()
    for event in ("job_start", "job_end"):
        told = {line["execution_id"]: line["trace_id"] for line in lines if line.get("event") == event}
        assert told == executions


@pytest.mark.req("OBS-7", "OPS-8")
async def test_nor_the_end_of_a_process_whose_handler_blocks_it(folder: Path) -> None:
    """The last words of the watchdog have nobody to read them either."""
    (folder / "shop.py").write_text(BLOCKED)
    client = Mainspring(folder / "shop.db")
    client.job("async")(lambda: None)
    await client.enqueue("async")
    await client.close()
    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "wb"), run(folder, writing) as process:
        try:
            await until((folder / "blocked").exists, deadline=60)
            process.terminate()
            assert process.wait(DEADLINE) == 1
        finally:
            process.kill()
