"""Waiting for an execution on the command line: what it waits for is said after some seconds."""

from __future__ import annotations

import asyncio

import pytest

from mainspring import Mainspring, State
from mainspring.cli.commands.jobs import executions
from tests.support import until


@pytest.mark.req("OPS-4")
async def test_what_an_execution_waits_for_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(executions, "PATIENCE", 0.01)
    app = Mainspring("memory://")

    @app.job("greet")
    async def greet() -> None: ...

    async with app:
        await app.queues.pause("default", note="the shop is closed")
        made = await greet.enqueue()
        waiting = asyncio.create_task(executions.waited(app, made))
        said = ""

        def is_said() -> bool:
            nonlocal said
            said += capsys.readouterr().err
            return "Ctrl-C leaves it queued" in said

        await until(is_said)
        assert f"execution {made.id} has not begun: " in said
        assert "paused" in said
        await app.queues.resume("default")
        assert (await waiting).state is State.COMPLETED
