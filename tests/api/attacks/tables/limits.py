"""Requests of somebody with rights that ask for too much: lists, ranges, depths and sizes without end."""

from __future__ import annotations

from typing import Any

from tests.api.attacks.attack import Attack, attack

JOB = "POST /api/v1/jobs"
REFUSED, TAKEN = (400, 404, 413), (409,)


def _deep(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = {"a": found}
    return found


def _jobs() -> dict[str, dict[str, Any]]:
    """Fields of a new job."""
    minutes = ",".join(str(each % 60) for each in range(5_000))
    return {
        "a cron of 5,000 minutes": {"schedule": f"0 {minutes} * * * *"},
        "a cron of rubbish": {"schedule": "* " * 400},
        "a cron that never comes": {"schedule": "0 0 0 30 2 *"},
        "a cron with a step of zero": {"schedule": "*/0 * * * * *"},
        "a cron with a huge step": {"schedule": "*/99999999999 * * * * *"},
        "a cron with a huge range": {"schedule": "0-99999999 * * * * *"},
        "an interval below zero": {"interval_minutes": -1},
        "an interval of zero": {"interval_minutes": 0},
        "an interval of ages": {"interval_minutes": 1e300},
        "a zone that is a path": {"timezone": "../../../etc/passwd", "schedule": "@daily"},
        "a zone that is a file": {"timezone": "/etc/localtime", "schedule": "@daily"},
        "a zone of NUL": {"timezone": "UTC\0", "schedule": "@daily"},
        "a priority out of all bounds": {"priority": 10**30},
        "retries without end": {"max_retries": 10**9},
        "a timeout of ages": {"timeout": "1e400s"},
        "a timeout below zero": {"timeout": "-5s"},
        "a description of 100 KB": {"description": "a" * 100_000},
        "a description with NUL": {"description": "a\0b"},
        "params that are a list": {"params": [1]},
        "params that the handler does not take": {"params": {"x": 1}},
        "params of the wrong type": {"params": {"name": {"$ne": None}}},
        "params of 900 KB": {"params": {"name": "a" * 900_000}},
        "params 5,000 deep": {"params": {"name": _deep(900)}},
        "metadata 900 deep": {"metadata": _deep(900)},
        "metadata of 900 KB": {"metadata": {"a": "a" * 900_000}},
        "101 limits": {"limits": [{"key": f"k{i}", "concurrency": 1} for i in range(101)]},
        "a limit's key that is a program": {"limits": [{"key": "{params.__class__.__mro__}", "concurrency": 1}]},
        "a limit's key that is a format": {"limits": [{"key": "{tenant!r:>1000000000}", "concurrency": 1}]},
        "an unknown handler": {"handler": "os.system"},
        "a system handler": {"handler": "mainspring.webhooks"},
        "a name of the system": {"name": "mainspring.mine"},
        "the name of another job": {"name": "greet"},
        "a trigger that is a list": {"schedule": ["@daily"]},
        "hours that are a number": {"hours": 7},
        "a window without an end": {"window": {"offset": ["1000000000d"]}},
        "a secret path of 10 KB": {"secret": ["a." * 5_000]},
    }


def _others() -> dict[str, tuple[str, Any]]:
    ids = ["greet"] * 100_000
    return {
        "100,000 ids": ("POST /api/v1/bulk/jobs", {"command": "pause", "ids": ids}),
        "100,000 ids of executions": ("POST /api/v1/bulk/executions", {"command": "cancel", "ids": ids}),
        "a bulk action of 100,000 ids": ("POST /api/v1/bulk", {"target": "jobs", "action": "pause", "ids": ids}),
        "a bulk action of everything": ("POST /api/v1/bulk", {"target": "jobs", "action": "delete", "filter": {}}),
        "a bulk action of null": ("POST /api/v1/bulk", {"target": "jobs", "action": "delete", "filter": {"q": None}}),
        "a bulk action with an operator": (
            "POST /api/v1/bulk",
            {"target": "jobs", "action": "delete", "filter": {"$where": "1"}},
        ),
        "a bulk action at an endless pace": (
            "POST /api/v1/bulk",
            {"target": "jobs", "action": "pause", "ids": ["greet"], "pace": 1e300},
        ),
        "10,001 tenants": ("POST /api/v1/jobs/greet/trigger", {"tenants": [f"t{i}" for i in range(10_001)]}),
        "a window of ten thousand years": (
            "POST /api/v1/backfills",
            {"job": "close-the-year", "begin": "0001-01-01", "end": "9999-12-31"},
        ),
        "a backfill of a million windows": (
            "POST /api/v1/backfills",
            {"job": "close-the-year", "begin": "0100-01-01", "end": "2900-01-01", "dry_run": True},
        ),
        "a backfill from its end": (
            "POST /api/v1/backfills",
            {"job": "close-the-year", "begin": "2026-01-02", "end": "2026-01-01"},
        ),
        "a backfill of a job without windows": ("POST /api/v1/backfills", {"job": "greet", "begin": "2026-01-01"}),
        "a calendar of 100,000 days": ("PUT /api/v1/calendars/x", {"entries": ["12-25"] * 100_000}),
        "a calendar of rubbish": ("PUT /api/v1/calendars/x", {"entries": ["32-13"]}),
        "a calendar of a megabyte": ("PUT /api/v1/calendars/x", {"ics": "a" * 950_000}),
        "a calendar without an end": ("PUT /api/v1/calendars/x", {"ics": "BEGIN:VCALENDAR\r\n" * 1_000}),
        "a calendar of nothing": ("PUT /api/v1/calendars/x", {}),
        "a template of a megabyte": (
            "POST /api/v1/templates",
            {"name": "x", "handler": "greet", "description": "a" * 10**6},
        ),
        "an occurrence in the year 0": ("POST /api/v1/jobs/greet/occurrences/skip", {"at": "0000-00-00T00:00:00Z"}),
        "an occurrence out of all time": ("POST /api/v1/jobs/greet/occurrences/skip", {"at": "99999-01-01T00:00:00Z"}),
        "a pause until the end of time": ("POST /api/v1/jobs/greet/pause", {"resume_at": "99999-01-01"}),
        "a note of a megabyte": ("POST /api/v1/jobs/greet/pause", {"note": "a" * 900_000}),
        "a queue without a limit": ("POST /api/v1/queues/default/limit", {"concurrency": -1}),
        "a token for ever and a day": ("POST /api/v1/tokens", {"name": "x", "role": "admin", "expires": "1e99d"}),
        "a token of an unknown role": ("POST /api/v1/tokens", {"name": "x", "role": "root"}),
    }


def attacks() -> list[Attack]:
    made = []
    for kind, fields in _jobs().items():
        body = {"name": "made-by-an-attack", "handler": "greet", **fields}
        made.append(
            attack(kind, JOB, *(TAKEN if kind == "the name of another job" else REFUSED), json=body, who="admin")
        )
    for kind, (route, body) in _others().items():
        made.append(attack(kind, route, *REFUSED, json=body, who="admin"))
    return made
