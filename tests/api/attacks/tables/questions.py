"""Query strings: forged cursors, operators of query languages, patterns that explode, and numbers out of all bounds."""

from __future__ import annotations

from urllib.parse import quote

from tests.api.attacks.attack import Attack, Who, attack

LISTS = (
    *("jobs", "executions", "templates", "workers", "locks", "queues", "tenants", "calendars", "errors"),
    *("hooks", "webhooks", "audit", "changes", "bulk", "backfills"),
)
INJECTIONS = {
    "SQL that is always true": "' OR 1=1 --",
    "SQL that ends the statement": "x'; DROP TABLE jobs; --",
    "SQL with a union": "x' UNION SELECT digest FROM tokens --",
    "wildcards of LIKE": "%",
    "one wildcard of LIKE": "_____",
    "a backslash": "\\",
    "an escaped wildcard": "\\%",
    "a pattern that explodes": "(a+)+$" * 10,
    "an unclosed pattern": "[",
    "an operator of MongoDB": '{"$gt": ""}',
    "a script of MongoDB": "$where: sleep(10000)",
    "a template": "{{7*7}}{% for x in y %}",
    "a format": "%s%s%n{0.__class__}",
    "a shell command": "$(id)`id`|id",
    "a line break": "x\r\nSet-Cookie: a=b",
}
BOUNDS = {
    "a limit below zero": "limit=-1",
    "no limit at all": "limit=0",
    "a limit out of all bounds": "limit=1000000000",
    "a limit of text": "limit=all",
    "a limit of many digits": "limit=" + "9" * 5_000,
    "a limit beyond every float": "limit=1e400",
    "an unknown field": "where=1%3D1",
    "an operator as a field": "search[$ne]=x",
    "a cursor of rubbish": "cursor=%27%20OR%201%3D1",
    "a cursor of NUL": "cursor=%00",
    "a cursor of 100 KB": "cursor=" + "a" * 100_000,
    "a sort by a secret": "sort=digest",
    "a sort with SQL": "sort=name%3BDROP%20TABLE%20jobs",
    "a filter of NUL": "q=a%00b",
    "a filter of 100 KB": "q=" + "a" * 100_000,
    "a thousand parameters": "&".join(f"a{i}=1" for i in range(1_000)),
}
LOOKS = {
    "simulate": {
        "a century": "span=36500d",
        "an endless span": "span=1e400d",
        "a span below zero": "span=-1d",
        "200 jobs": "&".join(f"job=j{i}" for i in range(200)),
        "a zone that is a path": "timezone=../../etc/passwd",
    },
    "jobs/close-the-year/windows": {
        "two thousand years of windows": "begin=0001-01-01&end=2026-01-01",
        "windows without an end": "begin=2020-01-01&end=9999-12-31T23:59:59%2B23:59",
    },
    "activity": {"an unknown span": "span=1000000d&hours=1000000000"},
    "executions": {"a wait of a century": "wait=36500d", "metadata with an operator": "metadata[$where]=1"},
}


def attacks() -> list[Attack]:
    """As a viewer: a question is refused, or answered with what a viewer may see, and never an error of the server."""
    made: list[Attack] = []
    viewer: Who = "viewer"
    for name in LISTS:
        for kind, text in INJECTIONS.items():
            path = f"GET /api/v1/{name}?q={quote(text)}"
            made.append(attack(kind, path, 200, 400, who=viewer, never=("DROP TABLE jobs; --': ", "mainspring_")))
    for name in ("jobs", "executions", "audit", "workers"):
        for kind, query in BOUNDS.items():
            if (name, kind) != ("jobs", "a cursor of rubbish"):  # the place in a list by name, which any text may be
                made.append(attack(kind, f"GET /api/v1/{name}?{query}", 400, who=viewer))
    for name, looks in LOOKS.items():
        for kind, query in looks.items():
            made.append(attack(kind, f"GET /api/v1/{name}?{query}", 400, who=viewer))
    return made
