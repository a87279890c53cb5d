"""Screens of executions: the list, one in full, its attempts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from ...app.mainspring import Mainspring
from ...core.commands.tenant_retries import TenantRun
from ...core.monitoring.why import nobody_for
from ...core.render.entities import execution_json, tenant_json
from ...core.render.masking import shown_params
from ...core.rules.stopping import overrun_hint
from ...core.views.execution import Attempt, Execution, row_of
from ...core.views.job import JobView, job_of
from ...model.errors import JobNotFound
from ...model.execution import State
from ...model.time.instants import to_micros
from ...model.values.reading import zone
from ..parameters import short_id
from ..session import ClientSession
from ..terminal import echo
from .output import (
    compact,
    first_line,
    local_zone,
    moment,
    note,
    now,
    print_fields,
    print_text,
    progress_text,
    status,
    took,
    without_distance,
)
from .table import Column, print_table


class Shown:
    """An execution with what its own row does not say: the zone and isolation of its job, and what it waits for."""

    def __init__(
        self, execution: Execution, job: JobView | None, waits_for: str, tenants: Sequence[TenantRun] = ()
    ) -> None:
        self.execution, self.waits_for, self.tenants = execution, waits_for, tenants
        self.tz = job.tz if job else "UTC"
        self.isolation = job_of(job).spec.isolation if job else None


async def shown(app: Mainspring, execution: Execution) -> Shown:
    job = await _job_of(app, execution)
    waits = await waits_for(app, execution)
    tenants = await app.tenants.runs(execution, limit=MOST_TENANTS) if execution.fans_out else []
    return Shown(execution, job, waits, tenants)


async def _job_of(app: Mainspring, execution: Execution) -> JobView | None:
    try:
        return await app.job_view(execution.job)
    except JobNotFound:
        return None  # removed since; its history is kept


def show_execution(session: ClientSession, found: Shown) -> None:
    shape = execution_json(found.execution) | {"waits_for": found.waits_for or None}
    if found.execution.fans_out:
        shape["tenants"] = [tenant_json(run) for run in found.tenants]
    session.show(shape, lambda: _print_execution(found))


def edited_words(execution: Execution) -> str:
    """`order: 1 -> 2, good: added as true`."""
    words = []
    for name, sides in execution.edited.items():
        before, after = (json_text(sides.get(side)) for side in ("before", "after"))
        if "before" not in sides:
            words.append(f"{name}: added as {after}")
        elif "after" not in sides:
            words.append(f"{name}: removed, was {before}")
        else:
            words.append(f"{name}: {before} -> {after}")
    return ", ".join(words)


def json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def print_executions(found: Sequence[Execution]) -> None:
    if not found:
        echo("No execution matches.")
        return
    at = now()
    columns = [
        Column("ID", lambda execution: execution.id, "keep", short_id),
        Column("JOB", lambda execution: execution.job, "cut", readable=20),
        Column("STATUS", lambda execution: status(execution.state.value)),
        Column(f"STARTED ({local_zone(at)})", lambda each: moment(each.started_at, at), "keep", without_distance),
        Column("CREATED", lambda execution: _created(execution, at), "drop", without_distance),
        Column("TOOK", lambda execution: _took(execution, at), "drop"),
        Column("ATTEMPT", _attempt, "drop"),
        Column("PROGRESS", _progress, "cut"),
        Column("REASON", lambda execution: first_line(execution.error) or execution.reason or "", "last", readable=20),
        Column("TRIGGER", lambda execution: execution.trigger, "drop"),
        Column("TENANT", lambda execution: execution.tenant or "", "drop"),
    ]
    print_table(columns, found)


def _created(execution: Execution, at: datetime) -> str:
    return moment(None if execution.started_at else execution.created_at, at)


def _progress(execution: Execution) -> str:
    return progress_text(execution.progress, running=True) if execution.state is State.RUNNING else ""


def _attempt(execution: Execution) -> str:
    """An execution that ended without having started has no attempt."""
    if execution.state.final and execution.started_at is None:
        return "-"
    return f"{min(execution.attempt, execution.max_attempts)}/{execution.max_attempts}"


def _took(execution: Execution, at: datetime) -> str:
    """While it runs, the time until now."""
    if execution.state is State.RUNNING and execution.started_at is not None:
        return took(max(0.0, (at - execution.started_at).total_seconds() * 1000))
    return took(execution.duration_ms)


def _print_execution(found: Shown) -> None:
    execution, at = found.execution, now()
    running = execution.state is State.RUNNING
    print_fields(
        {
            "execution": execution.id,
            "job": execution.job + (f"  (run {execution.number})" if execution.number else ""),
            "status": status(execution.state.value),
            "overruns": _overruns(found, at),
            "waits for": found.waits_for,
            "reason": execution.reason,
            "trigger": f"{execution.trigger} by {execution.triggered_by}",
            "queue": execution.queue,
            "tenant": execution.tenant,
            "window": _window(execution, found.tz),
            "params": compact(shown_params(execution)),
            "search keys": ", ".join(
                f"{name}={each}" for name, found in execution.search_keys.items() for each in found
            ),
            "scheduled": moment(execution.scheduled_at, at) if execution.scheduled_at else None,
            "created": moment(execution.created_at, at),
            "due": moment(execution.start_at, at) if execution.state is State.PENDING else None,
            "started": moment(execution.started_at, at) if execution.started_at else None,
            "finished": moment(execution.finished_at, at) if execution.finished_at else None,
            "running for" if running else "took": _took(execution, at) if execution.started_at else None,
            "run timeout": moment(execution.run_timeout_at, at) if execution.run_timeout_at else None,
            "worker": execution.worker,
            "cancel requested": moment(execution.cancel_requested_at, at) if execution.cancel_requested_at else None,
            "retry of": execution.retry_of,
            "edited": edited_words(execution),
            "trace": execution.trace_id,
            "progress": progress_text(execution.progress, running),
            "counters": compact(execution.counters),
            "lines dropped": f"{execution.logs_dropped:,}" if execution.logs_dropped else None,
            "result": compact(execution.result),
            "metadata": compact(execution.metadata),
            "error": execution.error,
            "error group": execution.error_group,
        }
    )
    if execution.attempts:
        _print_attempts(execution.attempts, at)
    if found.tenants:
        print_tenants(found.tenants, at)


def _overruns(found: Shown, at: datetime) -> str | None:
    """While it runs although it should have stopped."""
    execution, hint = found.execution, overrun_hint(found.isolation)
    match row_of(execution).overruns(to_micros(at)):
        case "timeout":
            return f"past its timeout since {moment(execution.timeout_at, at)}; its handler does not stop{hint}"
        case "cancel":
            return f"cancelled {moment(execution.cancel_requested_at, at)}; its handler does not stop{hint}"
        case None:
            return None


def _window(execution: Execution, tz: str) -> str | None:
    if execution.window is None:
        return None
    where = zone("tz", tz, warn=False)
    begin, end = (at.astimezone(where) for at in (execution.window.begin, execution.window.end))
    return f"{begin:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} {tz}"


def _print_attempts(attempts: Sequence[Attempt], at: datetime) -> None:
    echo()
    columns = [
        Column("ATTEMPT", lambda attempt: str(attempt.number)),
        Column("END", _end),
        Column("STARTED", lambda attempt: moment(attempt.started_at, at), "keep", without_distance),
        Column("TOOK", lambda attempt: took(attempt.duration_ms)),
        Column("CPU", _cpu, "drop"),
        Column("MEMORY", _memory, "drop"),
        Column("ERROR", lambda attempt: first_line(attempt.error), "last"),
        Column("WORKER", lambda attempt: short_id(attempt.worker), "drop"),
    ]
    print_table(columns, attempts)
    failed = next((attempt for attempt in reversed(attempts) if attempt.traceback), None)
    if failed is not None and failed.traceback:
        print_text(failed.traceback, f"traceback of attempt {failed.number}")


def _cpu(attempt: Attempt) -> str:
    return "" if attempt.cpu_ms is None else took(attempt.cpu_ms)


def _memory(attempt: Attempt) -> str:
    """Known of tries in a process of their own."""
    return "" if attempt.memory_mb is None else f"{attempt.memory_mb:.0f} MB"


def _end(attempt: Attempt) -> str:
    words = {"timeout": " past its timeout", "cancel": " despite a cancel", None: ""}
    why = f" ({attempt.reason})" if attempt.reason else ""
    return attempt.end + words[attempt.overran] + why


MOST_TENANTS = 100
"""More would scroll the failed ones away; the list by tenant and the HTTP interface have them all."""


def print_tenants(found: Sequence[TenantRun], at: datetime) -> None:
    echo()
    columns = [
        Column("TENANT", lambda run: run.tenant),
        Column("STATUS", lambda run: status(run.status.value)),
        Column("ATTEMPT", lambda run: f"{run.attempts}/{run.max_attempts}"),
        Column("STARTED", lambda run: without_distance(moment(run.started_at, at)), "drop"),
        Column("TOOK", lambda run: took(run.duration_ms), "drop"),
        Column("ERROR", lambda run: first_line(run.error) or run.reason or "", "last"),
    ]
    print_table(columns, found)
    if len(found) == MOST_TENANTS:
        echo(f"These are the first {MOST_TENANTS}. For one tenant: mainspring executions list --tenant NAME")


async def waits_for(app: Mainspring, execution: Execution) -> str:
    """What a pending execution waits for, in words; empty when a worker is about to claim it."""
    return "; ".join(without_itself(reason.message, execution.id) for reason in await app.why_waiting(execution))


def without_itself(message: str, id: str) -> str:
    """The words about an execution, where it is clear that they are about this one.

    >>> without_itself("execution e1 waits for e0 to end (overlap queue)", "e1")
    'e0 to end (overlap queue)'
    >>> without_itself("execution e1 is to start at 2026-03-01T08:00:00Z", "e1")
    'start at 2026-03-01T08:00:00Z'
    """
    return re.sub(rf"^execution {re.escape(id)} (waits: |waits for |is to |is )?", "", message)


async def warn_if_unclaimable(app: Mainspring, execution: Execution) -> bool:
    """Warn a user who is about to wait for an execution that no process will claim; whether that was so."""
    if execution.state is not State.PENDING:
        return False
    nobody = nobody_for(execution.handler, execution.queue, await app.workers())
    if nobody is not None:
        note(f"execution {execution.id} queued; {nobody.message}, so it waits. Ctrl-C leaves it queued")
    return nobody is not None


async def warn_of_waiting(app: Mainspring, id: str) -> None:
    """Say what an execution waits for, if it has not begun."""
    execution = await app.get(id)
    words = await waits_for(app, execution) if execution.state is State.PENDING else ""
    if words:
        note(f"execution {id} has not begun: {words}. Ctrl-C leaves it queued")
