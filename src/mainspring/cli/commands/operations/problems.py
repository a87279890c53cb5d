"""`mainspring problems`: what needs attention."""

from __future__ import annotations

import click
from rich.text import Text

from ....core.render.problems import problems_json
from ....core.rules.problems import Fix, Problem, ProblemList
from ...root import example
from ...screens.output import now, rough
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options

STYLES = {"bad": "bold red", "warn": "yellow"}
COMMANDS: dict[Fix, str] = {
    "retry_probe": "errors retry {id} --probe 5",
    "open_error": "errors show {id}",
    "why": "jobs why {name}",
    "open_queue": "queues list --sort oldest",
    "resume": "{kind}s resume {name}",
    "open_execution": "executions show {id}",
    "open_executions": "executions list --handler {name} --status pending",
    "open_worker": "workers list --silent",
    "undrain": "workers undrain {id}",
    "open_job": "jobs show {name}",
    "open_changes": "changes --since 1d",
    "open_bulk": "bulk show {id}",
    "open_backfill": "backfill show {id}",
    "enable_webhook": "webhooks enable {id}",
    "open_webhook": "webhooks show {id}",
}
"""The command that mends a problem, after `mainspring`."""


@example("problems", "problems -o json")
@click.command()
@client_options
def problems(session: ClientSession) -> None:
    """What needs attention: new errors, late jobs, queues that back up, stuck runs, silent workers and the like, the
    most urgent first."""
    found = session.call(lambda app: app.monitoring.problems())
    session.show(problems_json(found), lambda: _print(found))


def _print(found: ProblemList) -> None:
    if not found.problems:
        click.echo("Nothing needs attention.")
        return
    present = now()
    columns = [
        Column("", lambda each: Text(each.severity, style=STYLES[each.severity])),
        Column("WHAT", _subject, "cut", readable=20),
        Column("PROBLEM", lambda each: each.text, "cut", readable=30),
        Column("EVIDENCE", _evidence, "cut", readable=20),
        Column(
            "FOR", lambda each: "-" if each.since is None else rough((present - each.since).total_seconds()), "drop"
        ),
        Column("NEXT: mainspring ...", command, "drop"),
    ]
    print_table(columns, found.problems)
    if found.left_out:
        click.echo(f"and {found.left_out:,} more")


def _subject(problem: Problem) -> str:
    subject = problem.subject
    if subject.kind in ("job", "queue", "handler", "worker", "application", "webhook"):
        return f"{subject.kind} {subject.name}"
    return f"run of {subject.name}" if subject.kind == "execution" else subject.name


def _evidence(problem: Problem) -> str:
    return ", ".join(filter(None, (problem.evidence, f"by {problem.by}" if problem.by else "")))


def command(problem: Problem) -> str:
    if problem.fix is None:
        return ""
    subject = problem.subject
    return COMMANDS[problem.fix].format(id=subject.id, name=subject.name, kind=subject.kind)
