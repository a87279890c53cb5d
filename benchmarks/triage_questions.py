"""The sixteen questions of an operator and the lists of `benchmarks.triage`, each one request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.triage_fill import LONG_QUEUE, NOISY_TENANT, ORDER, Size, error_of, job_of

Answer = Callable[[Any], str | None]
"""What the JSON of an answer says, in a few words; None if it does not say it."""


@dataclass(frozen=True)
class Question:
    words: str
    method: str
    path: str
    answer: Answer
    body: Any = None

    def body_for(self, words: dict[str, str]) -> Any:
        """With the error group, where the body names one."""
        return json.loads(json.dumps(self.body).replace("{group}", words["group"]))


def words_for(size: Size) -> dict[str, str]:
    """The names in the paths of questions and lists."""
    return {"job": job_of(size.jobs // 2 + 7), "group": error_of(0)[0].group, "paused_job": job_of(0)}


def _first(*fields: str) -> Answer:
    """These fields of the first item of a list."""

    def answer(found: Any) -> str | None:
        items = found["items"]
        return " ".join(str(items[0][field]) for field in fields) if items else None

    return answer


def _all(field: str) -> Answer:
    def answer(found: Any) -> str | None:
        return ", ".join(str(item[field]) for item in found["items"][:5]) or None

    return answer


def _longest_queue(found: Any) -> str | None:
    queues = sorted(found["items"], key=lambda queue: -queue["ready"])
    return f"{queues[0]['name']}: {queues[0]['ready']:,} ready" if queues[0]["name"] == LONG_QUEUE else None


def _silent(found: Any) -> str | None:
    """The one whose last heartbeat is longest ago."""
    worker = min(found["items"], key=lambda worker: worker["last_heartbeat_at"])
    return f"{worker['id']}, last heard of at {worker['last_heartbeat_at']}"


def _why(found: Any) -> str | None:
    return ", ".join(reason["code"] for reason in found["reasons"]) or None


def _changed(found: Any) -> str | None:
    """The newest change, whatever it is."""
    newest = found["items"][0]
    return ", ".join(str(value) for value in newest.values() if value)[:100]


def _noisy(found: Any) -> str | None:
    worst = found["items"][0]
    words = f"{worst['tenant']}: {worst['waiting']:,} waiting, {worst['failed']:,} failed attempts"
    return words if worst["tenant"] == NOISY_TENANT else None


QUESTIONS = (
    Question("What is the most common error?", "GET", "/api/v1/errors?limit=5", _first("id", "type", "count")),
    Question("Which queue backs up?", "GET", "/api/v1/queues?sort=-ready", _longest_queue),
    Question("Which tenant makes the noise?", "GET", "/api/v1/tenants", _noisy),
    Question(
        "Retry all of one error? (dry run)",
        "POST",
        "/api/v1/bulk",
        lambda found: str(found)[:100],
        {"target": "executions", "action": "retry", "filter": {"error_group": "{group}"}, "dry_run": True},
    ),
    Question("Stop one handler", "POST", "/api/v1/handlers/handler-03/pause", lambda found: str(found)[:100], {}),
    Question(
        "Five at once in that queue, no more",
        "POST",
        f"/api/v1/queues/{LONG_QUEUE}/limit",
        lambda found: f"concurrency {found['concurrency']}",
        {"concurrency": 5},
    ),
    Question(f"Where is order {ORDER}?", "GET", f"/api/v1/executions?search=order_id={ORDER}", _first("id", "job")),
    Question("What has been running longest?", "GET", "/api/v1/executions?running=true&longer_than=1h", _first("id")),
    Question("What failed in the last two hours?", "GET", "/api/v1/executions?status=failed&since=2h", _first("id")),
    Question("What is overdue?", "GET", "/api/v1/jobs?overdue=true", _all("name")),
    Question("Why does this job not run?", "GET", "/api/v1/jobs/{paused_job}/why", _why),
    Question("What changed, and which release came?", "GET", "/api/v1/changes", _changed),
    Question("Which worker is silent?", "GET", "/api/v1/workers", _silent),
    Question("What is planned next?", "GET", "/api/v1/jobs?sort=next_run_at", _first("name", "next_run_at")),
    Question("Which jobs are paused, and by whom?", "GET", "/api/v1/audit?action=pause", _first("target", "actor")),
    Question("How many processes are wanted?", "GET", "/api/v1/scale", lambda found: f"{found['wanted']}"),
)

_EXECUTIONS = {
    "": "",
    "completed": "status=completed",
    "failed": "status=failed",
    "pending": "status=pending",
    "running": "running=true",
    "running for long": "running=true&longer_than=1h",
    "longer than 0.9 s": "longer_than=0.9s",
    "longer than an hour": "longer_than=1h",
    "of a job": "job={job}",
    "of a job, failed": "job={job}&status=failed",
    "of a handler": "handler=handler-03",
    "of a queue": "queue=queue-31",
    "of no queue": "queue=nowhere",
    "of a queue, failed": "queue=queue-31&status=failed",
    "of a queue, pending": "queue=queue-31&status=pending",
    "of a handler and queue, failed": "handler=handler-03&queue=queue-03&status=failed",
    "of the noisy tenant": f"tenant={NOISY_TENANT}",
    "of the noisy tenant, failed": f"tenant={NOISY_TENANT}&status=failed",
    "of a tenant": "tenant=tenant-123",
    "of a tenant, failed": "tenant=tenant-123&status=failed",
    "of a tenant, pending": "tenant=tenant-123&status=pending",
    "of a tenant and queue": "tenant=tenant-123&queue=queue-31",
    "of a worker": "worker=worker-3",
    "of no worker": "worker=nobody",
    "by reason": "reason=error",
    "by a reason that is nowhere": "reason=nowhere",
    "by error text": "error=connection+refused",
    "by error text that is nowhere": "error=nowhere",
    "by error text, failed": "error=step+f0&status=failed",
    "of an error group": "error_group={group}",
    "of an error group, of a tenant": "error_group={group}&tenant=tenant-123",
    "of an error group, of a queue": "error_group={group}&queue=queue-31",
    "by search key": f"search=order_id={ORDER}",
    "by search key of many": "search=customer=c1231",
    "by two search keys": "search=customer=c1231&search=order_id=31231",
    "by a search key that is nowhere": "search=order_id=none",
    "by trigger": "trigger=backfill",
    "of two hours": "since=2h",
    "of two hours, failed": "since=2h&status=failed",
    "of two hours, of a queue": "since=2h&queue=queue-31",
    "of a day long ago, of a handler": "since=20d&until=19d&handler=handler-03",
}
_JOBS = {
    "": "",
    **{state: f"status={state}" for state in ("pending", "scheduled", "running", "paused", "completed", "failed")},
    "paused": "paused=true",
    "overdue": "overdue=true",
    "of a handler": "handler=handler-03",
    "of a queue": "queue=queue-31",
    "of operators": "origin=api",
    "of an owner": "owner=owner-7",
    "with a tag": "tag=nightly",
    "with two tags": "tag=nightly&tag=team-3",
    "of a site": "metadata=site=site-42",
    "of an owner, failed": "owner=owner-7&last_status=failed",
    "last run failed": "last_status=failed",
    "by part of the name": "name=0421",
    "searched": "q=monthly%20report",
    "searched by what is nowhere": "q=nowhere",
    "far down the list": "offset=9000",
    **{
        f"sorted by {sign}{field}": f"sort={sign}{field}"
        for field in ("name", "status", "handler", "next_run_at", "last_run_at", "created_at", "updated_at")
        for sign in ("", "-")
    },
}
LISTS = {
    **{f"executions, {what}".rstrip(", "): f"/api/v1/executions?{query}" for what, query in _EXECUTIONS.items()},
    "executions, 200 a page": "/api/v1/executions?limit=200",
    **{f"jobs, {what}".rstrip(", "): f"/api/v1/jobs?{query}" for what, query in _JOBS.items()},
    "jobs, 200 a page": "/api/v1/jobs?limit=200",
    "tenants, most failures": "/api/v1/tenants?sort=failed&limit=200",
    "audit": "/api/v1/audit",
    "workers": "/api/v1/workers",
}
