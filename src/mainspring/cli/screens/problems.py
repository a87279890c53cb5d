"""Words for problems: what it is about, what is wrong, the evidence by the reader's clock, and the next command."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from ...core.rules.problems import Fix, Problem, ProblemKind
from .output import moment, print_indented, without_distance

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
STARTS: dict[ProblemKind, str] = {"no_scheduler": "run MODULE:APP", "no_worker": "worker MODULE:APP"}
"""The command that starts the process which is missing."""


def print_problems(found: Sequence[Problem], at: datetime) -> None:
    """Each as a sentence, with its evidence and the next command below."""
    rows = []
    for each in found:
        rows.append((severity(each), Text(sentence(each), style="bold")))
        rows += [(Text(), Text(line)) for line in (evidence(each, at), _next_step(each)) if line]
    print_indented(rows)


def _next_step(problem: Problem) -> str:
    """An error that nobody can mend now can be muted."""
    mute = f"; or mainspring errors mute {problem.subject.id}" if problem.subject.kind == "error_group" else ""
    return f"mainspring {command(problem)}{mute}" if command(problem) else ""


def severity(problem: Problem) -> Text:
    return Text(f"{problem.severity:<4}", style=STYLES[problem.severity])


def sentence(problem: Problem) -> str:
    """`queue mail has no running worker`."""
    subject = problem.subject
    if subject.kind in ("job", "queue", "handler", "worker", "application", "webhook"):
        name = f"{subject.kind} {subject.name}"
    else:
        name = f"run of {subject.name}" if subject.kind == "execution" else subject.name
    return f"{name} {problem.text}"


def evidence(problem: Problem, at: datetime) -> str:
    """The facts behind it, since when it has been so, and who did it."""
    words, since = problem.evidence, "" if problem.since is None else without_distance(moment(problem.since, at))
    due, tz = problem.details.get("due"), problem.details.get("tz")
    if since and due and tz:
        words, since = words.replace(f"{due} {tz}", since).replace(due, since), ""
    return ", ".join(filter(None, (words, f"since {since}" if since else "", f"by {problem.by}" if problem.by else "")))


def command(problem: Problem) -> str:
    if problem.kind in STARTS and not problem.details.get("workers"):
        return STARTS[problem.kind]
    if problem.fix is None:
        return ""
    subject = problem.subject
    return COMMANDS[problem.fix].format(id=subject.id, name=subject.name, kind=subject.kind)
