"""The command table of a job over HTTP, cell by cell: how each state is reached for real, and what must come of each
command. The interface and the worker are processes of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.api.processes import UNATTENDED, Operator

COMMANDS = ("pause", "resume", "trigger", "cancel", "retry", "reactivate")
STATES = ["cancelled", "completed", "failed", "paused", "pending", "running", "scheduled"]
COMPLETED, FAILED = ("completed",), ("failed",)

# 409; (state of the new execution's end,) of a 202; or the state of the job after it.
TABLE: dict[str, tuple[Any, ...]] = {
    "pending": ("paused", 409, ("cancelled",), "cancelled", 409, 409),
    "scheduled": ("paused", 409, COMPLETED, "cancelled", 409, 409),
    "scheduled, last failed": ("paused", 409, FAILED, "cancelled", FAILED, 409),
    "running": ("paused", 409, 409, "cancelled", 409, 409),
    "paused": (409, "scheduled", COMPLETED, "cancelled", 409, 409),
    "paused, last failed": (409, "scheduled", FAILED, "cancelled", FAILED, 409),
    "completed": (409, 409, COMPLETED, 409, 409, 409),
    "failed": (409, 409, FAILED, 409, FAILED, 409),
    "cancelled": (409, 409, 409, 409, 409, "scheduled"),
}
CELLS = [(state, command, row[at]) for state, row in TABLE.items() for at, command in enumerate(COMMANDS)]


# --- the states -------------------------------------------------------------------------------------------------


async def pending(operator: Operator, name: str) -> None:
    await operator.create(name, "succeed", queue=UNATTENDED)


async def scheduled(operator: Operator, name: str, handler: str = "succeed") -> None:
    await operator.create(name, handler, interval_minutes=30)


async def scheduled_last_failed(operator: Operator, name: str) -> None:
    await scheduled(operator, name, "fail")
    ended = await operator.post(f"/api/v1/jobs/{name}/trigger?wait=60s", status=500)
    assert ended["error"]["details"]["status"] == "failed"


async def running(operator: Operator, name: str) -> None:
    await operator.create(name, "hold", params={"gate": name}, interval_minutes=30, overlap="skip")
    await operator.post(f"/api/v1/jobs/{name}/trigger", status=202)
    await operator.begun(name)


async def paused(operator: Operator, name: str) -> None:
    await scheduled(operator, name)
    await operator.post(f"/api/v1/jobs/{name}/pause", status=200)


async def paused_last_failed(operator: Operator, name: str) -> None:
    await scheduled_last_failed(operator, name)
    await operator.post(f"/api/v1/jobs/{name}/pause", status=200)


async def completed(operator: Operator, name: str) -> None:
    made = await operator.create(name, "succeed")
    assert (await operator.ended(made["execution_id"]))["status"] == "completed"


async def failed(operator: Operator, name: str) -> None:
    made = await operator.create(name, "fail")
    assert (await operator.ended(made["execution_id"]))["status"] == "failed"


async def cancelled(operator: Operator, name: str) -> None:
    await scheduled(operator, name)
    await operator.post(f"/api/v1/jobs/{name}/cancel", status=200)


SETUPS: dict[str, Callable[[Operator, str], Awaitable[None]]] = {
    "pending": pending,
    "scheduled": scheduled,
    "scheduled, last failed": scheduled_last_failed,
    "running": running,
    "paused": paused,
    "paused, last failed": paused_last_failed,
    "completed": completed,
    "failed": failed,
    "cancelled": cancelled,
}


# --- the commands -----------------------------------------------------------------------------------------------


async def cell(operator: Operator, state: str, command: str, expected: Any) -> None:
    name = f"{state}-{command}".replace(", ", "-").replace(" ", "-")
    status = state.partition(",")[0]
    await SETUPS[state](operator, name)
    before = await operator.job(name)
    assert before["status"] == status
    answer = await operator.http.post(f"/api/v1/jobs/{name}/{command}")
    if expected == 409:
        assert answer.status_code == 409, answer.text
        await refused(operator, name, command, before, answer.json()["error"])
    elif isinstance(expected, tuple):
        assert answer.status_code == 202, answer.text
        await started(operator, name, command, before, answer.json(), expected[0])
    else:
        assert answer.status_code == 200, answer.text
        await steered(operator, name, command, before, answer.json(), expected)


async def refused(operator: Operator, name: str, command: str, before: Any, error: Any) -> None:
    """Both states are named, and nothing has changed."""
    details, status = error["details"], before["status"]
    assert details["command"] == command
    assert status in details["current_state"]
    assert details["allowed_states"]
    assert set(details["allowed_states"]) <= {*STATES, "no execution of it is alive"}, details
    assert status in error["message"]
    after = await operator.job(name)
    same = ("status", "next_run_at", "is_paused", "cancelled_at", "version")
    assert [after[field] for field in same] == [before[field] for field in same]
    if status == "running":
        operator.open(name)


async def started(operator: Operator, name: str, command: str, before: Any, made: Any, end: str) -> None:
    """A new execution that really runs, while the schedule stays as it was."""
    assert (made["id"], made["current_retry_count"]) == (name, 0)
    made = made["execution"]
    assert (made["status"], made["retry_attempt"]) == ("pending", 0)
    assert made["trigger"] == ("retry" if command == "retry" else "api")
    assert (await operator.job(name))["next_run_at"] == before["next_run_at"]
    if before["status"] == "pending":  # nobody works on its queue
        await operator.post(f"/api/v1/executions/{made['id']}/cancel", status=200)
    assert (await operator.ended(made["id"]))["status"] == end
    if before["status"] in ("scheduled", "paused"):
        after = await operator.job(name)
        assert (after["status"], after["next_run_at"]) == (before["status"], before["next_run_at"])


async def steered(operator: Operator, name: str, command: str, before: Any, told: Any, state: str) -> None:
    """The job is in its new state; a run under way finishes beside a pause and is stopped by a cancel."""
    ran_on = before["status"] == "running" and command == "pause"
    assert told["status"] == ("running" if ran_on else state)
    assert told["is_paused"] is (state == "paused")
    assert (told["paused_at"] is not None) is (state == "paused")
    assert (told["cancelled_at"] is not None) is (state == "cancelled")
    assert (told["next_run_at"] is not None) is (state == "scheduled")
    if before["status"] == "running":
        [run] = operator.runs(name)
        if ran_on:
            operator.open(name)
        else:
            await operator.stopped(name)
        assert (await operator.ended(run))["status"] == ("completed" if ran_on else "cancelled")
    assert (await operator.job(name))["status"] == state
