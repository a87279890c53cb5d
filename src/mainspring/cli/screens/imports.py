"""The report of an import: one table, one JSON form, for every scheduler that jobs come from."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from ...core.commands.imports import Planned, UndoneJob
from ..terminal import echo
from .output import console, note
from .table import Column, print_table

RESULTS = ("exact", "changed", "needs review")
ACTIONS = ("create", "update", "unchanged", "review")


def report_json(id: str | None, planned: Sequence[Planned], notes: Sequence[str], dry_run: bool) -> dict[str, Any]:
    return {
        "import": id,
        "dry_run": dry_run,
        "counts": {action: sum(each.action == action for each in planned) for action in ACTIONS},
        "results": _results(planned),
        "notes": list(notes),
        "rows": [_row_json(each) for each in planned],
    }


def _row_json(planned: Planned) -> dict[str, Any]:
    row = planned.row
    return {
        "source": row.source,
        "job": row.name,
        "schedule_time": row.schedule,
        "becomes": planned.becomes,
        "interval_minutes": planned.interval_minutes,
        "timezone": row.tz,
        "enabled": row.enabled,
        "task": row.task,
        "handler": planned.handler or row.handler,
        "parameters": dict(planned.shown_params),
        "result": planned.result,
        "action": planned.action,
        "reason": planned.reason,
    }


def _results(planned: Sequence[Planned]) -> dict[str, int]:
    return {result: sum(each.result == result for each in planned) for result in RESULTS}


_COLUMNS = [
    Column("JOB", lambda each: each.row.name),
    Column("SCHEDULE", lambda each: each.row.schedule, "cut", readable=18),
    Column("BECOMES", lambda each: each.becomes, "cut", readable=18),
    Column("RESULT", lambda each: each.result),
    Column("ACTION", lambda each: "-" if each.action == "review" else each.action),
    Column("SOURCE", lambda each: each.row.source, "drop"),
]
_UNDONE = [
    Column("JOB", lambda each: each.job),
    Column("OUTCOME", lambda each: each.outcome),
    Column("REASON", lambda each: each.reason or "-", "cut"),
]


def print_report(id: str | None, planned: Sequence[Planned], notes: Sequence[str], dry_run: bool) -> None:
    """The table, the reasons in full below it, and the counts."""
    if planned:
        print_table(_COLUMNS, planned)
        _print_reasons(planned)
    for each in notes if planned else ():
        note(textwrap.fill(f"note: {each}", _width(), subsequent_indent="  "))
    counts = ", ".join(f"{count} {result}" for result, count in _results(planned).items() if count) or "no rows"
    if dry_run:
        note(f"dry run, nothing was changed: {counts}; {_done(planned, 'to create', 'to update')}")
    elif id is None:
        note(f"nothing to change: {counts}")
    else:
        undo = f"take it back with --undo --import {id} and the same --app or --database-url"
        note(f"import {id}: {counts}; {_done(planned, 'created', 'updated')}; {undo}")


def _done(planned: Sequence[Planned], created: str, updated: str) -> str:
    words = {"create": created, "update": updated, "unchanged": "already so"}
    counts = {word: sum(each.action == action for each in planned) for action, word in words.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "nothing to create"


def _print_reasons(planned: Sequence[Planned]) -> None:
    """What is different and what has to be reviewed, each job once, wrapped to the terminal."""
    for result in ("changed", "needs review"):
        listed = [each for each in planned if each.result == result]
        if listed:
            echo(f"\n{result.capitalize()}:")
        for each in listed:
            text = f"{each.row.name}: {each.reason}"
            echo(textwrap.fill(text, _width(), initial_indent="  ", subsequent_indent="    "))


def _width() -> int:
    return max(40, min(console().width, 120))


def undone_json(id: str, undone: Sequence[UndoneJob], dry_run: bool) -> dict[str, Any]:
    jobs = [{"job": each.job, "outcome": each.outcome, "reason": each.reason} for each in undone]
    return {"import": id, "dry_run": dry_run, "jobs": jobs}


def print_undone(id: str, undone: Sequence[UndoneJob], dry_run: bool) -> None:
    if undone:
        print_table(_UNDONE, undone)
    note(f"import {id}: " + ("dry run, nothing was changed" if dry_run else "taken back"))
