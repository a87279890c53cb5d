"""What `import mainspring` brings in, and what it offers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mainspring

PUBLIC = [
    "AlreadyRunning",
    "Attempt",
    "Backfill",
    "BackfillNotFound",
    "BulkAction",
    "BulkNotFound",
    "CatchUp",
    "CommandRefused",
    "ConfigurationError",
    "DuplicateRegistration",
    "Event",
    "Execution",
    "ExecutionCancelled",
    "ExecutionNotFound",
    "HandlerNotFound",
    "Hours",
    "InvalidValue",
    "JobContext",
    "JobHandle",
    "JobNotFound",
    "JobState",
    "JobView",
    "LeaseLost",
    "Limit",
    "LockTaken",
    "LockUnavailable",
    "LogEntry",
    "Mainspring",
    "MainspringError",
    "NonRetryable",
    "PayloadMismatch",
    "Retention",
    "Retry",
    "RetryAfter",
    "SchemaMismatch",
    "Secret",
    "Skip",
    "State",
    "StoreError",
    "StoreUnavailable",
    "TenantRun",
    "Unique",
    "Window",
    "WindowStatus",
    "Windows",
    "any_of",
    "cron",
    "current_tenant",
    "daily_at",
    "days_ago",
    "every",
    "hourly_at",
    "limited",
    "monthly_at",
    "offset",
    "once",
    "weekly_at",
]

METHODS = [
    "job",
    "register",
    "schedule",
    "provide",
    "setup",
    "around",
    "observe",
    "token_source",
    "registrar",
    "settings",
    "open",
    "close",
    "start",
    "stop",
    "run",
    "lifespan",
    "asgi",
    "sync",
    "enqueue",
    "enqueue_many",
    "trigger",
    "track",
    "backfill",
    "pause",
    "resume",
    "cancel",
    "cancel_execution",
    "reactivate",
    "retry",
    "update_job",
    "revert_job",
    "remove_job",
    "skip_occurrence",
    "move_occurrence",
    "restore_occurrence",
    "jobs",
    "job_view",
    "windows",
    "why",
    "why_waiting",
    "executions",
    "get",
    "logs",
    "follow",
    "wait",
    "workers",
    "drain_worker",
    "undrain_worker",
    "audits",
    "changes",
    "lock",
    "try_lock",
    "unlock",
]

NAMESPACES = {
    "backfills": ["cancel", "get", "pause", "recent", "resume", "start", "wait"],
    "bulk": ["abort", "executions", "get", "items", "jobs", "preview", "recent", "start", "wait"],
    "calendars": ["all", "declare", "get", "jobs", "remove", "revert", "set"],
    "errors": ["all", "get", "mute", "retry", "unmute"],
    "handlers": ["all", "pause", "resume"],
    "hooks": ["all", "get", "remove", "rotate_secret", "set"],
    "locks": ["all", "page", "release", "suggested_ttl"],
    "monitoring": [
        "activity",
        "alert_rules",
        "grafana_dashboard",
        "late",
        "left_out",
        "metrics_page",
        "missed_runs",
        "problems",
        "waiting_for_code",
    ],
    "queues": ["all", "get", "limit", "pause", "resume", "scale"],
    "templates": ["all", "apply", "create", "get", "remove", "update"],
    "tenants": ["busiest", "retry_failed", "runs"],
    "tokens": ["all", "create", "revoke"],
    "webhooks": [
        "all",
        "create",
        "deliveries",
        "disable",
        "enable",
        "get",
        "remove",
        "rotate_secret",
        "test",
        "undelivered",
        "update",
    ],
}

HEAVY = [
    "sqlite3",
    "click",
    "rich",
    "fastapi",
    "starlette",
    "uvicorn",
    "pydantic",
    "jinja2",
    "psycopg",
    "asyncpg",
    "sqlalchemy",
    "pymongo",
    "bson",
    "redis",
    "opentelemetry",
    "prometheus_client",
    "cron_descriptor",
    "tomllib",
    "http.client",
    "urllib.request",
    "multiprocessing",
]


def test_the_public_names_are_a_contract() -> None:
    assert sorted(mainspring.__all__) == sorted(PUBLIC)
    assert [name for name in PUBLIC if not hasattr(mainspring, name)] == []
    assert mainspring.__version__


def shown(thing: object) -> list[str]:
    """What completion offers."""
    return sorted(name for name in dir(thing) if not name.startswith("_"))


def test_completion_on_the_application_shows_these_names_and_no_internals() -> None:
    app = mainspring.Mainspring("memory://")
    assert shown(app) == sorted([*METHODS, *NAMESPACES])
    assert {name: shown(getattr(app, name)) for name in NAMESPACES} == NAMESPACES


def test_every_public_error_is_a_mainspring_error() -> None:
    errors = [getattr(mainspring, name) for name in PUBLIC if isinstance(getattr(mainspring, name), type)]
    raised = [each for each in errors if issubclass(each, BaseException)]
    assert len(raised) >= 14
    assert all(issubclass(each, mainspring.MainspringError) for each in raised)


@pytest.mark.req("OPS-1")
@pytest.mark.parametrize(
    "code",
    [
        "import mainspring",
        "import mainspring; app = mainspring.Mainspring('memory://'); app.job('x', cron='0 3 * * *')(lambda: None)",
    ],
    ids=["import", "declare"],
)
def test_the_import_pulls_in_no_framework_and_no_driver(tmp_path: Path, code: str) -> None:
    script = f"import sys\n{code}\nimport json\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = set(json.loads(done.stdout))
    assert "mainspring.app.mainspring" in loaded
    assert sorted(loaded & set(HEAVY)) == []
    assert sorted(name for name in loaded if name.startswith(("mainspring.stores", "mainspring.cli"))) == []


def test_how_long_the_import_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not asserted: a busy machine is no defect. The budget is 150 ms."""
    script = "import time\nbegan = time.process_time()\nimport mainspring\nprint((time.process_time() - began) * 1000)"
    times = [
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    best, worst = min(times), max(times)
    with capsys.disabled():
        print(f"\nimport mainspring: {best:.0f} to {worst:.0f} ms of CPU in {len(times)} runs (budget 150 ms)")
    assert best > 0
