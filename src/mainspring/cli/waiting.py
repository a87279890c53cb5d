"""Why an execution has not begun: what people ask first when nothing happens. Core knows the answers."""

from __future__ import annotations

import re

from ..app import Mainspring
from ..core.why_workers import nobody_for
from ..model.execution import Execution, State
from .output import note


async def waits_for(app: Mainspring, execution: Execution) -> str:
    """What a pending execution waits for, in words; empty when somebody is about to take it."""
    return "; ".join(without_itself(reason.message, execution.id) for reason in await app.why_waiting(execution))


def without_itself(message: str, id: str) -> str:
    """The words about an execution, where it is clear that they are about this one.

    >>> without_itself("execution e1 waits for e0 to end (overlap queue)", "e1")
    'e0 to end (overlap queue)'
    >>> without_itself("execution e1 is to start at 2026-03-01T08:00:00Z", "e1")
    'start at 2026-03-01T08:00:00Z'
    """
    return re.sub(rf"^execution {re.escape(id)} (waits: |waits for |is to |is )?", "", message)


async def say_if_nobody_comes(app: Mainspring, execution: Execution) -> None:
    """One line for somebody who is about to wait in vain."""
    if execution.state is not State.PENDING:
        return
    if (nobody := nobody_for(execution.handler, execution.queue, await app.workers())) is not None:
        note(f"execution {execution.id} queued; {nobody.message}, so it waits. Ctrl-C leaves it queued")
