"""Why an execution has not begun: what people ask first when nothing happens. Core knows the answers."""

from __future__ import annotations

from ..app import Mainspring
from ..core.why_workers import nobody_for
from ..model.execution import Execution, State
from .output import note


async def waits_for(app: Mainspring, execution: Execution) -> str:
    """What a pending execution waits for, in words; empty when somebody is about to take it."""
    return "; ".join(reason.message for reason in await app.why_waiting(execution))


async def say_if_nobody_comes(app: Mainspring, execution: Execution) -> None:
    """One line for somebody who is about to wait in vain."""
    if execution.state is not State.PENDING:
        return
    if (nobody := nobody_for(execution.handler, execution.queue, await app.workers())) is not None:
        note(f"execution {execution.id} queued; {nobody.message}, so it waits. Ctrl-C leaves it queued")
