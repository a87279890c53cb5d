"""A handler under control of its test."""

from __future__ import annotations

import asyncio
from typing import Any

from mainspring import Execution, JobContext, Mainspring
from tests.support import until


class Gate:
    """Waits to be let go, so that a test decides when an execution ends. One gate may serve several applications."""

    def __init__(self, app: Mainspring, name: str = "gate", **options: Any) -> None:
        self.running: list[str] = []
        self.most = 0
        self.open = asyncio.Event()
        self.fail = False
        self.serve(app, name, **options)

    def serve(self, app: Mainspring, name: str = "gate", **options: Any) -> None:
        app.job(name, **options)(self.handler)

    async def handler(self, ctx: JobContext) -> None:
        self.running.append(ctx.execution_id)
        self.most = max(self.most, len(self.running))
        try:
            await self.open.wait()
            if self.fail:
                raise ValueError("as asked")
        finally:
            self.running.remove(ctx.execution_id)

    async def holds(self, execution: Execution | None) -> None:
        assert execution is not None
        await until(lambda: execution.id in self.running, f"execution {execution.id} runs")
