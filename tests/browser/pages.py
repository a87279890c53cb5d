"""The pages of the dashboard, by name, with an example of each kind of thing that the application has."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

LISTS = (
    *("jobs", "executions", "errors", "timeline", "queues", "workers", "tenants", "bulk", "backfills", "webhooks"),
    *("locks", "changes", "system"),
)
THINGS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "execution-failed": ("executions", "/executions", "id", {"status": "failed", "limit": 1}),
    "execution-running": ("executions", "/executions", "id", {"running": True, "limit": 1}),
    "execution-tenants": ("executions", "/executions", "id", {"status": "partial", "limit": 1}),
    "error": ("errors", "/errors", "id", {"sort": "count"}),
    "queue": ("queues", "/queues", "name", {}),
    "bulk-action": ("bulk", "/bulk", "id", {}),
    "backfill": ("backfills", "/backfills", "id", {}),
    "webhook": ("webhooks", "/webhooks", "id", {}),
}
"""The part of the path, and the list of the API, its field and its filters by which an example is found."""
FURTHER = {
    "audit": "changes/audit",
    "job-edit": "jobs/{job}/edit",
    "job-backfill": "jobs/{job}/backfill?only=holes&order=oldest",
    "execution-edit": "{execution-failed}/edit",
    "webhook-replay": "{webhook}/replay",
    "bulk-new": "bulk/new?target=executions&action=retry&status=failed",
}
"""Pages of forms, and others that belong to another page."""
NAMES = ("overview", *LISTS, "job", *THINGS, *FURTHER)


def pages_of(address: str, job: str, running: str) -> dict[str, str]:
    """The path of each page, found through the API of the same application. The page of `job` is shown, and that of an
    execution of the job `running`."""
    with httpx.Client(base_url=f"{address}/api/v1", timeout=60) as http:

        def first(path: str, field: str, query: dict[str, Any]) -> str:
            given = {**query, "job": running} if query.get("running") else query
            items = http.get(path, params=given).raise_for_status().json()["items"]
            assert items, f"{path} has nothing to show: {query}"
            return quote(str(items[0][field]), safe="")

        things = {name: f"{part}/{first(path, field, query)}" for name, (part, path, field, query) in THINGS.items()}
    known = {"job": quote(job, safe=""), **things}
    further = {name: path.format(**known) for name, path in FURTHER.items()}
    paths = {name: name for name in LISTS} | {"job": f"jobs/{known['job']}"} | things | further
    return {"overview": "/dashboard"} | {name: f"/dashboard/{path}" for name, path in paths.items()}
