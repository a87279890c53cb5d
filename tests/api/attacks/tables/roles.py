"""Rights that somebody does not have: viewers who act, operators who manage, and ways around a job's own role."""

from __future__ import annotations

from typing import Any

from tests.api.attacks.attack import Attack, attack

RAISES: dict[str, tuple[tuple[str, str], ...]] = {
    "a role limit above the role": (("x-role-limit", "admin"),),
    "a role limit twice": (("x-role-limit", "viewer"), ("x-role-limit", "admin")),
    "X-Role": (("x-role", "admin"), ("x-mainspring-role", "admin"), ("role", "admin")),
    "a method override": (("x-http-method-override", "GET"), ("x-http-method", "GET"), ("x-method-override", "GET")),
    "an original URL": (("x-original-url", "/api/v1/me"), ("x-rewrite-url", "/api/v1/me")),
    "a forwarded prefix": (("x-forwarded-prefix", "/healthz"), ("x-script-name", "/healthz")),
}
MUTATIONS = (
    *("POST /api/v1/jobs", "PUT /api/v1/jobs/greet", "DELETE /api/v1/jobs/greet", "POST /api/v1/jobs/greet/trigger"),
    *("POST /api/v1/bulk/jobs", "POST /api/v1/backfills", "POST /api/v1/templates", "PUT /api/v1/calendars/x"),
    *("POST /api/v1/tokens", "PUT /api/v1/hooks/billing", "POST /api/v1/webhooks", "DELETE /api/v1/locks/x"),
    *("POST /api/v1/queues/default/pause", "POST /api/v1/handlers/greet/pause", "POST /jobs/greet"),
)
ADMIN_ROUTES: dict[str, dict[str, Any] | None] = {
    "GET /api/v1/tokens": None,
    "POST /api/v1/tokens": {"name": "mine", "role": "admin"},
    "DELETE /api/v1/tokens/0000000000000000": None,
    "PUT /api/v1/hooks/mine": {"job": "greet"},
    "POST /api/v1/hooks/billing/rotate": {},
    "DELETE /api/v1/hooks/billing": None,
    "POST /api/v1/webhooks": {"url": "https://example.com/"},
    "POST /api/v1/webhooks/x/rotate": {},
    "POST /api/v1/webhooks/x/test": {},
    "DELETE /api/v1/locks/x": None,
}
CLOSE = "/api/v1/jobs/close-the-year"
AT = {"at": "2090-01-01T00:00:00Z"}
AROUND: dict[str, tuple[str, Any]] = {
    "trigger": (f"POST {CLOSE}/trigger", {}),
    "trigger with a window": (f"POST {CLOSE}/trigger", {"window": {"begin": "2026-01-01", "end": "2026-01-02"}}),
    "trigger by /_sys": ("POST /_sys/job/close-the-year", {}),
    "run of the handler": ("POST /jobs/close-the-year", {}),
    "retry": (f"POST {CLOSE}/retry", {}),
    "retry of an execution": ("POST /api/v1/executions/ADMIN-RUN/retry", {}),
    "cancel of an execution": ("POST /api/v1/executions/ADMIN-RUN/cancel", {}),
    "pause": (f"POST {CLOSE}/pause", {}),
    "pause of the handler": ("POST /api/v1/handlers/close-the-year/pause", {}),
    "resume of the handler": ("POST /api/v1/handlers/close-the-year/resume", {}),
    "resume": (f"POST {CLOSE}/resume", {}),
    "cancel": (f"POST {CLOSE}/cancel", {}),
    "reactivate": (f"POST {CLOSE}/reactivate", {}),
    "revert": (f"POST {CLOSE}/revert", {}),
    "removal": (f"DELETE {CLOSE}?force=true", None),
    "a change": (f"PUT {CLOSE}", {"interval_minutes": 1}),
    "a lower role by a change": (f"PUT {CLOSE}", {"trigger_role": "operator"}),
    "no role by a change": (f"PUT {CLOSE}", {"trigger_role": None}),
    "a skipped occurrence": (f"POST {CLOSE}/occurrences/skip", AT),
    "a moved occurrence": (f"POST {CLOSE}/occurrences/move", {**AT, "to": "2090-01-02T00:00:00Z"}),
    "a restored occurrence": (f"POST {CLOSE}/occurrences/restore", AT),
    "a backfill": ("POST /api/v1/backfills", {"job": "close-the-year"}),
    "a new job of the handler": ("POST /api/v1/jobs", {"name": "mine", "handler": "close-the-year"}),
    "a new job with a lower role": ("POST /api/v1/jobs", {"handler": "close-the-year", "trigger_role": "operator"}),
    "a job by the second of two fields": (
        "POST /api/v1/jobs",
        b'{"handler": "greet", "name": "mine", "handler": "close-the-year"}',
    ),
    "a role that the operator has not": ("PUT /api/v1/jobs/greet", {"trigger_role": "admin"}),
}


def attacks() -> list[Attack]:
    made = []
    for mutation in MUTATIONS:
        made.append(attack("a viewer who acts", mutation, 403, who="viewer", json={}))
        made.append(attack("a stranger who acts", mutation, 401, json={}))
        for kind, headers in RAISES.items():
            made.append(attack(kind, mutation, 403, who="viewer", json={}, headers=headers))
    for route, body in ADMIN_ROUTES.items():
        made.append(attack(f"an operator at {route}", route, 403, who="operator", json=body))
    for kind, (route, body) in AROUND.items():
        given = {"body": body, "headers": JSON} if isinstance(body, bytes) else {"json": body}
        sys_route = route.startswith("POST /_sys")
        made.append(attack(kind, route, 403, who="operator", peer="127.0.0.1" if sys_route else "203.0.113.9", **given))
    made.append(
        attack("a role limit of rubbish", "GET /api/v1/me", 400, who="viewer", headers=(("x-role-limit", "x"),))
    )
    return made


JSON = (("content-type", "application/json"),)
