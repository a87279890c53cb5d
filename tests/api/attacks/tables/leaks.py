"""What strangers and viewers would like to read: documents, keys, secrets of others, and what the server is made of."""

from __future__ import annotations

from mainspring.version import VERSION
from tests.api.attacks.attack import Attack, attack
from tests.api.attacks.world import HOOK_SECRET, PASSWORD

GUESSES = (
    *("/.env", "/.git/config", "/docs", "/redoc", "/swagger.json", "/api/docs", "/graphql", "/debug/pprof", "/console"),
    *(
        "/actuator/env",
        "/server-status",
        "/admin",
        "/api/v1/config",
        "/api/v1/settings",
        "/api/v1/users",
        "/api/v2/jobs",
    ),
    *("/mainspring.toml", "/jobs.db", "/dashboard/static/../../../mainspring.toml", "/api/v1/tokens.json", "/api"),
)
GUARDED = ("/openapi.json", "/metrics", "/api/v1/scheduler/metrics", "/api/v1/me", "/api/v1/audit", "/api/v1/workers")
REQUEST_IDS = {
    "a request id with markup": "<script>alert(1)</script>",
    "a request id with an escape sequence": "a\x1b[2J",
    "a request id of SQL": "' OR 1=1 --",
    "a request id of 10 KB": "a" * 10_000,
    "a request id of spaces": "a b",
    "a request id that begins with a dash": "-rf",
}
JOBS = ("greet", "close-the-year", "pay", "receive")


def attacks() -> list[Attack]:
    made = [attack("a guess at a path", f"GET {path}", 401, 404, 303, 307, never=JOBS) for path in GUESSES]
    made += [attack("a document without a login", f"GET {path}", 401, never=JOBS) for path in GUARDED]
    for kind, value in REQUEST_IDS.items():
        headers = (("x-request-id", value),)
        made.append(attack(kind, "GET /api/v1/me", 401, headers=headers, never=(value,)))
    for path in ("/healthz", "/readyz"):
        made.append(attack("what health tells a stranger", f"GET {path}", 200, 503, never=(VERSION, "memory", *JOBS)))
    for path in ("jobs/pay", "jobs", "hooks", "hooks/billing", "audit", "changes", "executions", "webhooks"):
        made.append(
            attack("secrets as a viewer", f"GET /api/v1/{path}", 200, who="viewer", never=(PASSWORD, HOOK_SECRET))
        )
    made.append(attack("a token's digest", "GET /api/v1/tokens", 200, who="admin", never=("digest", "secret", "hash")))
    for path in ("jobs/gree", "jobs/clos-the-year", "hooks/billin", "queues/defaul"):
        made.append(attack("names of things by their likeness", f"GET /api/v1/{path}", 401, never=JOBS))
    made.append(attack("a preflight", "OPTIONS /api/v1/jobs", 405, 401, headers=_preflight()))
    made.append(attack("a foreign Origin with credentials", "GET /api/v1/jobs", 200, who="viewer", headers=_foreign()))
    made.append(
        attack("a range of an answer", "GET /api/v1/jobs", 200, who="viewer", headers=(("range", "bytes=0-0"),))
    )
    return made


def _preflight() -> tuple[tuple[str, str], ...]:
    return ("origin", "https://evil.example"), ("access-control-request-method", "DELETE")


def _foreign() -> tuple[tuple[str, str], ...]:
    return (("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"))
