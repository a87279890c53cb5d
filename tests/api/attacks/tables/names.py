"""Names of things: markup, paths, control characters, look-alikes and lengths, where names are chosen and where they
are asked for."""

from __future__ import annotations

from urllib.parse import quote

from tests.api.attacks.attack import Attack, attack

NAMES = {
    "markup": "<script>alert(1)</script>",
    "an attribute": '" onmouseover="alert(1)',
    "a path upwards": "../tokens",
    "an absolute path": "/etc/passwd",
    "a path of Windows": "..\\..\\windows",
    "only dots": "..",
    "NUL": "a\0b",
    "a line break": "a\r\nLocation: https://evil.example",
    "an escape sequence": "\x1b[2J",
    "bidi controls": "a\u202eb",
    "a zero-width space": "a\u200bb",
    "look-alikes": "gr\u0435et",
    "an unpaired accent": "e\u0301",
    "an emoji": "\U0001f4a3",
    "a space": "a b",
    "SQL": "x'; DROP TABLE jobs; --",
    "a template": "{{7*7}}",
    "a query": "a?force=true",
    "a fragment": "a#b",
    "a percent sign": "a%2fb",
    "nothing": "",
    "100 KB": "a" * 100_000,
    "a hundred and one characters": "a" * 101,
}
CHOSEN = (
    ("POST /api/v1/jobs", "name", {"handler": "greet"}),
    ("POST /api/v1/templates", "name", {"handler": "greet"}),
    ("POST /api/v1/webhooks", "id", {"url": "https://example.com/"}),
    ("PUT /api/v1/jobs/greet", "queue", {}),
    ("POST /api/v1/tokens", "name", {"role": "viewer"}),
)
ASKED = (
    *("GET /api/v1/jobs/{}", "POST /api/v1/jobs/{}/trigger", "GET /api/v1/executions/{}", "GET /api/v1/templates/{}"),
    *("GET /api/v1/calendars/{}", "GET /api/v1/hooks/{}", "GET /api/v1/webhooks/{}", "GET /api/v1/queues/{}"),
    *("GET /api/v1/bulk/{}", "GET /api/v1/backfills/{}", "GET /api/v1/errors/{}", "DELETE /api/v1/tokens/{}"),
    *("DELETE /api/v1/locks/{}", "POST /jobs/{}", "POST /api/v1/handlers/{}/pause", "POST /api/v1/workers/{}/drain"),
    *("PUT /api/v1/calendars/{}", "PUT /api/v1/hooks/{}", "GET /dashboard/jobs/{}", "GET /dashboard/executions/{}"),
)
TEXTS = ("<script>alert(1)", 'onmouseover="alert', "root:x:")


def attacks() -> list[Attack]:
    made = []
    for route, field, more in CHOSEN:
        for kind, name in NAMES.items():
            made.append(attack(f"{kind} for a {field}", route, 400, json={field: name, **more}, who="admin"))
    for route in ASKED:
        for kind, name in NAMES.items():
            if name:
                path = route.format(quote(name, safe=""))
                never = TEXTS if "dashboard" in path else ()  # JSON is no markup, and nothing takes it for markup
                made.append(attack(f"{kind} in a path", path, who="admin", json={}, never=never))
    return made
